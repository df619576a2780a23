"""A table of published numbers, or of our own recorded ones: cells with their protocol, and bands for a result to lie in.

A table is a TOML file beside this one, or in `contilab.report.recorded` if its numbers are our own. `[protocol]` holds settings
of all cells by dotted key, `[settings.METHOD]` those of a method, `settings.SCENARIO` those of a cell. A cell is [mean] or
[mean, spread] in percent. Where a source does not tell a setting, `not_stated` says so in words, and its cells are printed
without a verdict. A method or cell with another optimiser has none of the protocol's settings of the optimiser.

A band holds under the settings of each cell of its method and scenario that its own `settings` do not contradict, and under
these. `bands_for_any` names settings with any value of which the bands hold.
"""

import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Literal, NamedTuple

from contilab.errors import UsageError

SCENARIOS = ("task", "domain", "class")
FOLDERS = (files("contilab.report.published"), files("contilab.report.recorded"))


class Cell(NamedTuple):
    """One published mean, in percent, with the settings that it was measured under. sem: None if no spread was published."""

    method: str
    scenario: str
    mean: float
    sem: float | None
    settings: Mapping[str, Any]


class Band(NamedTuple):
    """Where the mean of *method* must lie, in percent, under *settings*, and why.

    own: those of *settings* that it is for whatever the source has. free: those that may have any value.
    """

    method: str
    scenario: str
    low: float
    high: float
    basis: str
    settings: Mapping[str, Any]
    own: frozenset[str] = frozenset()
    free: frozenset[str] = frozenset()


class Table(NamedTuple):
    """What one source published, or what we recorded.

    status: "verified" if it was read in its source, "recalled" if it is known at second hand, "recorded" if it is what contilab
    itself gave, in the versions that *recorded_with* names.
    """

    name: str
    title: str
    status: Literal["verified", "recalled", "recorded"]
    seeds: int
    spread: Literal["sem", "sd"]
    not_stated: tuple[str, ...]
    cells: tuple[Cell, ...]
    bands: tuple[Band, ...]
    recorded_with: str = ""

    @property
    def said(self) -> str:
        """What was done with its numbers: "published" or "recorded"."""
        return "recorded" if self.status == "recorded" else "published"


def names() -> tuple[str, ...]:
    """Return the names of all tables."""
    return tuple(sorted(_tables()))


def read_table(name: str) -> Table:
    """Return the table *name*; UsageError if there is none."""
    if name not in names():
        raise UsageError("--against", f'there is no table "{name}"', hint=f"there are {', '.join(names())}")
    found = tomllib.loads(_tables()[name].read_text(encoding="utf-8"))
    return Table(
        name=name,
        title=found["title"],
        status=found["status"],
        seeds=found["seeds"],
        spread=found["spread"],
        not_stated=tuple(found.get("not_stated", ())),
        cells=tuple(_cells(found)),
        bands=tuple(_bands(found)),
        recorded_with=found.get("recorded_with", ""),
    )


def _tables() -> dict[str, Traversable]:
    items = (item for folder in FOLDERS for item in folder.iterdir())
    return {item.name.removesuffix(".toml"): item for item in items if item.name.endswith(".toml")}


def _cells(found: Mapping[str, Any]) -> Iterator[Cell]:
    root = 1.0 if found["spread"] == "sem" else found["seeds"] ** 0.5
    for cell in found["cells"]:
        for scenario in SCENARIOS:
            if scenario in cell:
                mean, *spread = cell[scenario]
                own = cell.get("settings", {}).get(scenario, {})
                settings = _settings(found, cell["method"], scenario, own)
                yield Cell(cell["method"], scenario, mean, spread[0] / root if spread else None, settings)


def _bands(found: Mapping[str, Any]) -> Iterator[Band]:
    free = frozenset(found.get("bands_for_any", ()))
    for band in found.get("bands", ()):
        own, (low, high), scenario = band.get("settings", {}), band["between"], band["scenario"]
        for method in band["methods"]:
            for cell in _cells_for(found, method, scenario, own):
                settings = _settings(found, method, scenario, {**cell, **own})
                yield Band(method, scenario, low, high, band["basis"], settings, frozenset(own), free)


def _cells_for(found: Mapping[str, Any], method: str, scenario: str, own: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the settings of each cell that *own* do not contradict; none of any cell if there is no such cell."""
    there = [cell for cell in found["cells"] if cell["method"] == method and scenario in cell]
    settings: list[Mapping[str, Any]] = [cell.get("settings", {}).get(scenario, {}) for cell in there]
    return [cell for cell in settings if all(own.get(key, value) == value for key, value in cell.items())] or [{}]


def _settings(found: Mapping[str, Any], method: str, scenario: str, own: Mapping[str, Any]) -> dict[str, Any]:
    given = {**found.get("settings", {}).get(method, {}), **own}
    is_other = "optim.name" in given
    common = {key: value for key, value in found["protocol"].items() if not (is_other and key.startswith("optim."))}
    return {**common, "benchmark.scenario": scenario, "method.name": method, **given}
