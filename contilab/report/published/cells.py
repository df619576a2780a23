"""A study as `verdict` wants it: each cell with its settings and the final accuracy of every finished seed."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from contilab.report.published.verdict import Ours
from contilab.report.runs import RunReport, read_runs
from contilab.report.settings import flat
from contilab.spec.sections import Benchmark
from contilab.spec.study import Study
from contilab.store.store import Store

# Not in the configuration of a run that has the default, but part of every protocol.
STREAM = ("first_task", "online", "fuzzy_steps", "blurry_share")


def cells_of(store: Store, study: Study) -> list[Ours]:
    """Return the cells of *study*; seeds without a result, and those that diverged, have no value.

    `engine.precision` is what the seeds were trained in: a run that leaves it to the machine has the word "auto" alone.
    """
    runs = read_runs(store, study)
    found = []
    for cell in study.cells:
        own = [run for run in runs if run.cell == cell]
        settings = {**settings_of(store.run(own[0].rid).config), **_precision(own)}
        values = [run.values.get("acc") for run in own]
        accuracies = tuple(100 * value for value in values if isinstance(value, float))
        name = ", ".join([cell.preset, cell.method, *(f"{key} = {value}" for key, value in cell.sweep.items())])
        found.append(Ours(name, settings, accuracies, len(own)))
    return found


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run by dotted key, and what its stream is where *config* leaves that out."""
    usual = {f"benchmark.{field.name}": field.default for field in fields(Benchmark) if field.name in STREAM}
    return {**usual, **flat(config)}


def _precision(runs: Iterable[RunReport]) -> dict[str, str]:
    used = {str(run.circumstances["precision"]) for run in runs if "precision" in run.circumstances}
    return {"engine.precision": " and ".join(sorted(used))} if used else {}
