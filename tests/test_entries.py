"""Every entry of the catalog says what it is, and its settings fit into a manifest and an address."""

import dataclasses
import re
from collections import Counter
from typing import get_type_hints

import pytest
from pydantic import TypeAdapter

from contilab import catalog
from contilab.spec.canonical import canonical
from contilab.spec.fields import Doc, markers, per_member

NAMES = [(kind, name) for kind, names in catalog.KINDS.items() for name in names]


@pytest.mark.parametrize(("kind", "name"), NAMES)
class TestEntry:
    """What every entry has to keep."""

    def test_summary_begins_with_one_line(self, kind, name):
        """The summary is whole sentences, and the first one fits on a line of a list."""
        summary = catalog.entry(kind, name).summary
        first = summary.partition(". ")[0]

        assert summary.endswith(".")
        assert 20 <= len(first) <= 120

    def test_file_is_named_as_the_manifest_names_it(self, kind, name):
        """The entry `x` is the ENTRY of a file x.py, with numerics such as x/1."""
        assert catalog.KINDS[kind][name].endswith(f".{name}:ENTRY")
        assert re.fullmatch(rf"{name}/[1-9][0-9]*", catalog.entry(kind, name).numerics)

    def test_settings_are_frozen_and_named(self, kind, name):
        """Settings are a frozen dataclass with keyword-only fields, each with a default and a meaning."""
        settings = catalog.entry(kind, name).settings
        fields = dataclasses.fields(settings)

        assert settings.__dataclass_params__.frozen
        assert [field.name for field in fields if not field.kw_only] == []
        assert [
            field.name for field in fields if not any(isinstance(mark, Doc) for mark in markers(settings, field.name))
        ] == []

    def test_defaults_are_in_range(self, kind, name):
        """The defaults pass the ranges of their own fields, in the types that are written down."""
        settings = catalog.entry(kind, name).settings
        hints = get_type_hints(settings, include_extras=True)
        values = {field.name: getattr(settings(), field.name) for field in dataclasses.fields(settings)}

        assert {key: TypeAdapter(hints[key]).validate_python(value, strict=True) for key, value in values.items()} == values

    def test_defaults_have_an_address(self, kind, name):
        """Every default has a canonical form; None has none, so "off" is spelled out."""
        settings = catalog.entry(kind, name).settings

        assert canonical(dataclasses.asdict(settings())).startswith(b"{")

    def test_what_members_may_differ_in_is_a_float(self, kind, name):
        """Only floats, or "off" in place of one, are taken per member, since they become tensors of the state."""
        settings = catalog.entry(kind, name).settings()
        values = {key: getattr(settings, key) for key in per_member(type(settings))}

        assert [key for key, value in values.items() if not isinstance(value, float) and value != "off"] == []


class TestMenu:
    """The catalog as a whole."""

    def test_numerics_tags_are_unique(self):
        """No two entries share a tag, so a tag tells one plugin's numbers."""
        tags = Counter(catalog.entry(kind, name).numerics for kind, name in NAMES)

        assert [tag for tag, count in tags.items() if count > 1] == []

    def test_menu_is_sorted(self):
        """Names stand in alphabetical order, so that a new one has one place."""
        assert {kind: list(names) for kind, names in catalog.KINDS.items()} == {
            kind: sorted(names) for kind, names in catalog.KINDS.items()
        }
