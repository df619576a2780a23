"""A study: the cells of a manifest and the runs of each, as `plan` writes it and `status` and `report` read it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from contilab.spec.sections import Execution

SCHEME = "contilab.study/1"
NAME = "[a-z0-9][a-z0-9._-]{0,39}"  # of a study: also the name of its folder


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One combination of a study: everything but the seed.

    *sweep* holds the values of the keys that vary in the study, by dotted key (only those that this cell uses).
    *runs* maps each seed to the address of its run. *flops*: of training one of them, 2 per multiply-add; 0 where a plan of an
    earlier version does not tell.
    """

    preset: str
    benchmark: str
    scenario: str
    method: str
    sweep: dict[str, Any]
    execution: Execution
    runs: dict[int, str]
    flops: int = 0


@dataclass(frozen=True, kw_only=True)
class Study:
    """The k-th plan of a study: its name, where it came from, and its cells in the order of the manifest."""

    name: str
    manifest: str
    values: tuple[str, ...]
    cells: tuple[Cell, ...]

    @property
    def rids(self) -> tuple[str, ...]:
        """The addresses of all runs, each once, in the order of the manifest."""
        return tuple(dict.fromkeys(rid for cell in self.cells for rid in cell.runs.values()))

    @property
    def table(self) -> dict[str, Any]:
        """The study as plain tables, for the disk."""
        cells = [{**asdict(cell), "runs": [[seed, rid] for seed, rid in cell.runs.items()]} for cell in self.cells]
        return {"v": SCHEME, "name": self.name, "manifest": self.manifest, "values": list(self.values), "cells": cells}


def study_from(table: Mapping[str, Any]) -> Study:
    """Return the study that *table* (the content of `studies/<name>/<k>.json`) describes; ValueError otherwise."""
    if table.get("v") != SCHEME:
        raise ValueError(f"the scheme is {table.get('v')!r}, this version reads {SCHEME!r}")
    cells = tuple(_cell_from(cell) for cell in table["cells"])
    return Study(name=table["name"], manifest=table["manifest"], values=tuple(table["values"]), cells=cells)


def _cell_from(table: Mapping[str, Any]) -> Cell:
    flops = table.get("flops")
    return Cell(
        **{
            **table,
            "execution": Execution(**table["execution"]),
            "runs": dict(table["runs"]),
            "flops": flops if type(flops) is int else 0,  # they order groups, for which no study is to be given up
        }
    )
