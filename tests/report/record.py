"""Prints the table of recorded numbers of a study, for contilab/report/recorded: python tests/report/record.py STUDY STORE.

To be run again when a numerics tag is raised: a change that is meant to change no number leaves the tables as they are.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from contilab.hardware.versions import versions
from contilab.report.published.cells import cells_of
from contilab.report.published.table import SCENARIOS
from contilab.report.published.verdict import Ours
from contilab.store.store import open_store

UNMATCHED = ("data.name", "engine.compile", "eval.", "numerics.")  # names, versions, and what moves no accuracy
AXES = ("benchmark.scenario", "method.name")  # said by the place in the table


def common(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the settings that all *cells* have in common."""
    return {key: value for key, value in cells[0].items() if all(key in cell and cell[key] == value for cell in cells)}


def lines(settings: Mapping[str, Any]) -> list[str]:
    """Return *settings* as lines of a TOML table; JSON and TOML write texts, numbers and lists alike."""
    return [f'"{key}" = {json.dumps(value)}' for key, value in settings.items()]


def settings_of(cell: Ours) -> dict[str, Any]:
    """Return the settings that a table matches, without those that its place says."""
    return {key: value for key, value in cell.settings.items() if key not in AXES and not key.startswith(UNMATCHED)}


def cell_lines(method: str, cells: Sequence[Ours], shared: Mapping[str, Any]) -> list[str]:
    """Return the lines of the *cells* of one variant of *method*, one per scenario; *shared* settings stand elsewhere."""
    found = sorted(cells, key=lambda cell: SCENARIOS.index(cell.settings["benchmark.scenario"]))
    numbers, own = [], []
    for cell in found:
        scenario = cell.settings["benchmark.scenario"]
        numbers.append(f"{scenario} = [{fmean(cell.values):.2f}, {stdev(cell.values):.2f}]")
        rest = {key: value for key, value in settings_of(cell).items() if key not in shared}
        if rest:
            own.append(f"settings.{scenario} = {{ {', '.join(lines(rest))} }}")
    return ["", "[[cells]]", f'method = "{method}"', *numbers, *own]


def table(name: str, cells: Sequence[Ours]) -> str:
    """Return the table of *cells* as TOML."""
    shared = common([settings_of(cell) for cell in cells])
    methods: dict[str, dict[str, list[Ours]]] = {}
    for cell in cells:
        variant = cell.name.partition(f", {cell.settings['method.name']}")[2]
        methods.setdefault(cell.settings["method.name"], {}).setdefault(variant, []).append(cell)
    tables, numbers = [], []
    for method, variants in methods.items():
        mine = common([settings_of(cell) for found in variants.values() for cell in found])
        own = {key: value for key, value in mine.items() if key not in shared}
        tables += ["", f"[settings.{method}]", *lines(own)] if own else []
        numbers += [line for found in variants.values() for line in cell_lines(method, found, shared | own)]
    known = versions()
    head = [
        f"# What manifests/{name}.toml gave. These are contilab's own numbers, not published ones: they tell whether it still",
        "# computes what it did. Written by tests/report/record.py.",
        f'title = "Our own numbers of {name}, not published ones"',
        'status = "recorded"',
        f'recorded_with = "contilab {known["contilab"]}, torch {known["torch"]}"',
        f"seeds = {len(cells[0].values)}",
        'spread = "sd"',
    ]
    return "\n".join([*head, "", "[protocol]", *lines(shared), *tables, *numbers]) + "\n"


if __name__ == "__main__":
    study, place = sys.argv[1:]
    store = open_store(Path(place))
    sys.stdout.write(table(study, cells_of(store, store.study(study))))
