"""The runs of a study arranged for tables and figures: per benchmark and scenario, one variant per cell.

Scenarios never share a table: they measure different things.
"""

import json
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from contilab.metrics.compute import evidence_of
from contilab.metrics.contract import Absent, Evidence, Metric, Value
from contilab.metrics.scenario import require_one_scenario
from contilab.metrics.table import metric
from contilab.report.characters import printable
from contilab.report.runs import RunReport, metric_of, metrics_of
from contilab.report.summary import Summary, summarise
from contilab.spec.study import Cell

NOT_COMPUTED = Absent("it was not computed for this run: contilab metrics STUDY --add NAME does")


class Variant(NamedTuple):
    """A method with its settings: the runs of one cell, by seed."""

    label: str
    runs: tuple[RunReport, ...]

    def summary(self, name: str) -> Summary:
        """Return the metric *name* over the seeds; one that is of a group, over the attempts that trained them."""
        values = self.values(name)
        item = metric_of(self.runs, name)
        if item and item.is_of_group:
            return summarise(dict(zip((run.attempt for run in self.runs), values, strict=True)).values())
        return summarise(values)

    def count(self, name: str) -> int:
        """Return how many runs have a value of the metric *name*."""
        return sum(not isinstance(value, Absent) for value in self.values(name))

    def values(self, name: str) -> list[Value]:
        """Return the metric *name* of each run; one that was computed for others only is absent."""
        return [run.values.get(name, NOT_COMPUTED) for run in self.runs]

    def by_seed(self, name: str) -> dict[int, Value]:
        """Return the metric *name* by seed."""
        return {run.seed: value for run, value in zip(self.runs, self.values(name), strict=True)}

    @property
    def tasks(self) -> int:
        """The number of tasks, which a sweep may vary between variants; 0 before there is a result."""
        return max((run.record.tasks for run in self.runs if run.record), default=0)

    def evidence(self) -> dict[int, Evidence]:
        """Return what was measured, by seed, without predictions."""
        return {run.seed: evidence_of(run.record) for run in self.runs if run.record}

    def curves(self) -> dict[int, list[Value]]:
        """Return `acc_seen_macro` after each stage, by seed; joint training has one stage."""
        seen = metric("acc_seen_macro")
        return {seed: [seen.of(e.until(stage)) for stage in range(e.stages)] for seed, e in self.evidence().items()}

    def mean_matrix(self) -> list[list[Value]]:
        """Return the accuracy matrix [S, T], each cell the mean over the seeds that have it."""
        found = list(self.evidence().values())
        if not found:
            return []
        stages, tasks = found[0].stages, found[0].tasks
        return [[_mean(e.reading(after, on) for e in found) for on in range(tasks)] for after in range(stages)]

    def mean_baseline(self) -> list[Value]:
        """Return the accuracies of the untrained model [T], each the mean over seeds."""
        rows = [run.record.baseline for run in self.runs if run.record]
        absent = Absent("the untrained model was not measured")
        return [_mean(absent if value is None else value for value in column) for column in zip(*rows, strict=True)]


class Benchmark(NamedTuple):
    """The variants of one preset, benchmark and scenario, in the order of the manifest."""

    preset: str
    name: str
    scenario: str
    variants: tuple[Variant, ...]

    @property
    def runs(self) -> tuple[RunReport, ...]:
        """All runs."""
        return tuple(run for variant in self.variants for run in variant.runs)

    @property
    def metrics(self) -> dict[str, Metric]:
        """Every metric that a run may have, by name."""
        return metrics_of(self.runs)

    @property
    def tasks(self) -> int:
        """The largest number of tasks of a variant, 0 before there is a result."""
        return max((variant.tasks for variant in self.variants), default=0)

    @property
    def seeds(self) -> tuple[int, ...]:
        """All planned seeds, sorted."""
        return tuple(sorted({run.seed for run in self.runs}))

    @property
    def fewest_seeds(self) -> int:
        """The smallest number of seeds behind an `acc`, among variants that have one."""
        return min(self.counts, default=0)

    @property
    def counts(self) -> list[int]:
        """The numbers of seeds behind an `acc`, of each variant that has one, sorted."""
        return sorted(n for variant in self.variants if (n := variant.count("acc")))


def benchmarks(runs: Iterable[RunReport]) -> list[Benchmark]:
    """Arrange *runs*; InputError if results of several scenarios claim one place."""
    places: dict[tuple[str, str, str], dict[str, tuple[Cell, list[RunReport]]]] = {}
    for run in runs:
        cell = run.cell
        cells = places.setdefault((cell.preset, cell.benchmark, cell.scenario), {})
        cells.setdefault(json.dumps([cell.method, cell.sweep], sort_keys=True), (cell, []))[1].append(run)
    return [_benchmark(*place, list(cells.values())) for place, cells in places.items()]


def _benchmark(preset: str, name: str, scenario: str, cells: list[tuple[Cell, list[RunReport]]]) -> Benchmark:
    results = {run.name: run.record.scenario for _, runs in cells for run in runs if run.record}
    require_one_scenario({"the plan": scenario, **results})
    keys = varying([cell for cell, _ in cells])
    variants = tuple(Variant(label(cell, keys), tuple(runs)) for cell, runs in cells)
    return Benchmark(preset, name, scenario, variants)


def varying(cells: Sequence[Cell]) -> list[str]:
    """Return the keys whose value is not the same in all *cells*, in the order of the manifest."""
    keys = dict.fromkeys(key for cell in cells for key in cell.sweep)
    return [key for key in keys if len({json.dumps(cell.sweep.get(key)) for cell in cells}) > 1]


def label(cell: Cell, keys: Iterable[str]) -> str:
    """Return what people call *cell*: its method, and its values of *keys*, each by its last word if that is clear."""
    short = {key: key.rpartition(".")[2] for key in keys}
    is_clear = len(set(short.values())) == len(short)
    parts = [f"{name if is_clear else key}={plain(cell.sweep[key])}" for key, name in short.items() if key in cell.sweep]
    return " ".join([cell.method, *parts])


def plain(value: Any) -> str:
    """Return a setting as a manifest writes it, text without quotes.

    >>> plain("sgd"), plain(0.1), plain(True), plain([400, 400])
    ('sgd', '0.1', 'true', '[400, 400]')
    """
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _mean(values: Iterable[Value]) -> Value:
    items = list(values)
    present = [item for item in items if not isinstance(item, Absent)]
    return fmean(present) if present else next(item for item in items if isinstance(item, Absent))
