"""Every entry of the catalog says what it is, and its settings fit into a manifest and an address."""

import dataclasses
import re
from collections import Counter
from typing import get_args, get_type_hints

import pytest
from pydantic import TypeAdapter

from contilab import catalog
from contilab.manifest.levels import BUILT_IN
from contilab.spec.canonical import canonical
from contilab.spec.fields import Doc, markers, per_member
from contilab.spec.sections import Memory

NAMES = [(kind, name) for kind, names in catalog.KINDS.items() for name in names]
SPRING = {"strength": 1.0, "stiffness_cap": 1.0}
DEFAULTS = {  # of every method; for pictures, where text has others
    "agem": {"reference": 256},
    "cumulative": {"restart": False},
    "der": {"alpha": 0.3, "head": "linear"},
    "derpp": {"alpha": 0.1, "beta": 0.5, "head": "linear"},
    "er": {"weighting": "concat", "head": "linear"},
    "er_ace": {"head": "linear"},
    "ewc": {**SPRING, "strength": 30.0, "decay": 1.0, "fisher_samples": 1024, "variant": "online", "fisher": "empirical"},
    "gdumb": {
        "passes": 128,
        "batch": 16,
        "lr": 0.05,
        "lr_end": 0.0005,
        "momentum": 0.9,
        "weight_decay": 1e-6,
        "clip_norm": 10.0,
    },
    "gem": {"margin": 0.5, "constraints": "tasks"},
    "icarl": {},
    "joint": {},
    "lwf": {"temperature": 2.0, "alpha": 1.0, "weighting": "plain", "rows": "old"},
    "mas": {**SPRING, "samples": 1024, "blend": "off"},
    "naive": {},
    "si": {**SPRING, "damping": 0.1},
}
RESERVOIR, EVERY_EPOCH = {"policy": "reservoir", "insert": "first_epoch"}, {"policy": "reservoir", "insert": "every_epoch"}
MEMORIES = {
    "agem": RESERVOIR,
    "der": EVERY_EPOCH,
    "derpp": EVERY_EPOCH,
    "er": RESERVOIR,
    "er_ace": RESERVOIR,
    "gdumb": {"policy": "class_balanced", "insert": "first_epoch"},
    "gem": {"policy": "ring", "insert": "first_epoch"},
    "icarl": {"policy": "herding", "insert": "task_end"},
}


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


class TestMethods:
    """What methods do unless a manifest says otherwise, and in what members may differ."""

    def test_settings_have_the_documented_defaults(self):
        """Each default is the documented one: a study that leaves a setting out goes on meaning what it meant."""
        found = {name: dataclasses.asdict(catalog.entry("method", name).settings()) for name in catalog.STRATEGIES}

        assert found == DEFAULTS

    def test_memories_have_the_documented_defaults(self):
        """Methods with a memory get 500 entries, as many replayed as current samples, and a policy and time of their own."""
        shared = {"policy": Memory().policy, "insert": Memory().insert}
        entries = {name: catalog.entry("method", name) for name in catalog.STRATEGIES}
        own = {name: {key: values[0] for key, values in entry.memory.items()} for name, entry in entries.items()}

        assert {name: {**shared, **own[name]} for name, entry in entries.items() if entry.uses_memory} == MEMORIES
        assert (BUILT_IN["memory.total"], Memory().batch) == (500, "train")

    def test_every_float_is_taken_per_member(self):
        """Members may differ in every float of a method, but for those of the optimiser that gdumb brings along."""
        shared = {
            (name, key)
            for name in catalog.STRATEGIES
            for key, hint in get_type_hints(catalog.entry("method", name).settings).items()
            if float in (hint, *get_args(hint)) and key not in per_member(catalog.entry("method", name).settings)
        }

        assert shared == {("gdumb", key) for key in ("lr", "lr_end", "momentum", "weight_decay", "clip_norm")}


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
