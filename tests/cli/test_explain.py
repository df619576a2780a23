"""Entries of the menu in words."""

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from annotated_types import Ge, Gt, Le, Lt

from contilab.cli.explain import accepted, explain
from contilab.spec.entry import Entry
from contilab.spec.fields import PER_MEMBER, Doc


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of every kind."""

    strength: Annotated[float, Gt(0), Lt(5), Doc("how much"), PER_MEMBER]
    layers: Annotated[tuple[int, ...], Doc("widths")] = (4, 4)
    kind: Literal["a", "b"] = "a"
    limit: int | None = None


class TestAccepted:
    """Annotations in words."""

    @pytest.mark.parametrize(
        ("hint", "words"),
        [
            (float, "float"),
            (Annotated[int, Ge(1), Le(9)], "int, at least 1, at most 9"),
            (Literal["seen", "all"], '"seen" or "all"'),
            (Annotated[int, Ge(1)] | Literal["all"], 'int, at least 1 or "all"'),
            (int | None, "int"),
            (tuple[int, ...], "list of int"),
        ],
    )
    def test_words(self, hint, words):
        """Type, bounds and choices are said in words."""
        assert accepted(hint) == words


class TestExplain:
    """One entry as text."""

    def test_everything_is_there(self):
        """Summary, every setting with default, range and meaning, and the paper."""
        entry = Entry(
            make=print, numerics="x/1", summary="Does x. And\n  more.", settings=Settings, paper="X 2020", uses_memory=True
        )
        text = explain("method", "x", entry)

        assert text.startswith("x (method)\n\nDoes x. And more.")
        for part in (
            "method.strength  (needed)  float, above 0, below 5",
            "how much; may differ",
            "[4, 4]",
            "paper: X 2020",
            "memory.total",
        ):
            assert part in text

    def test_no_settings(self):
        """An entry without settings shows no table."""
        assert explain("method", "x", Entry(make=print, numerics="x/1", summary="Does x.")) == "x (method)\n\nDoes x."
