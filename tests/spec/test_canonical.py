"""Claims about the canonical form, from which every address is made."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contilab.spec.canonical import canonical, digest

scalars = st.text() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
names = st.text("abcd", min_size=1, max_size=2)
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(names, inner), max_leaves=10)


def shuffled(value, reverse):
    """Return *value* with the keys of every table in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key], reverse) for key in sorted(value, reverse=reverse)}
    return [shuffled(item, reverse) for item in value] if isinstance(value, list) else value


class TestCanonical:
    """Equal typed values have one form, others have others."""

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ({"b": 1, "a": [True, False]}, '{"a":[true,false],"b":1}'),
            ({"Z": 1, "a": 2, "ä": 3}, '{"Z":1,"a":2,"ä":3}'),
            ((1, 2), "[1,2]"),
            (0.1, "0.1"),
            (1e22, "1e+22"),
            (100.0, "100.0"),
            (2**63 - 1, "9223372036854775807"),
            ("\u2028\x00/", '"\u2028\\u0000/"'),
            ({}, "{}"),
        ],
    )
    def test_form(self, value, text):
        """UTF-8 JSON without spaces, keys by code point, floats as the shortest text that reads back the same."""
        assert canonical(value) == text.encode()

    def test_four_different_values(self):
        """`1`, `1.0`, `true` and `"1"` have four different addresses."""
        assert len({digest({"x": value}) for value in (1, 1.0, True, "1")}) == 4

    def test_negative_zero(self):
        """`-0.0` is `0.0`, which is not `0`."""
        assert canonical(-0.0) == canonical(0.0) == b"0.0"

    def test_composed_text(self):
        """Text is in NFC, as value and as key: what looks the same has one address."""
        decomposed = unicodedata.normalize("NFD", "é")

        assert decomposed != "é"
        assert canonical({decomposed: decomposed}) == canonical({"é": "é"})

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ({"a": {"b": [0, float("nan")]}}, r"a\.b\[1\]: nan is not a finite number"),
            (float("inf"), "value: inf is not a finite number"),
            ({"seed": 2**63}, "seed: the integer 9223372036854775808 does not fit in 64 bits"),
            ({"seed": -(2**63) - 1}, "does not fit in 64 bits"),
            ({"a": None}, "a: NoneType has no canonical form"),
            ({"a": b"x"}, "a: bytes has no canonical form"),
            ({"a": {1, 2}}, "a: set has no canonical form"),
            ({1: "x"}, "the key 1 is not text"),
            ({"é": 1, unicodedata.normalize("NFD", "é"): 2}, "two keys are the same text"),
        ],
    )
    def test_refused(self, value, message):
        """What has no unique form is refused, and its path is named."""
        with pytest.raises(ValueError, match=message):
            canonical(value)

    @given(st.dictionaries(names, values))
    def test_order_of_keys(self, table):
        """The form does not depend on the order in which keys were written."""
        assert canonical(shuffled(table, reverse=True)) == canonical(shuffled(table, reverse=False))

    @given(values)
    def test_stable(self, value):
        """Reading the form and writing it again gives the same bytes."""
        assert canonical(json.loads(canonical(value))) == canonical(value)
