"""One benchmark of a report: what it is, its tables, what may be claimed, its protocol; figures are drawn apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from contilab.report.benchmark import Benchmark
from contilab.report.comparison import Family
from contilab.report.comparison_table import comparison_table, selection_table, statement
from contilab.report.notices import significance
from contilab.report.protocol import Protocol
from contilab.report.selection import Choice, in_full
from contilab.report.table import Table, every_metric, headline, per_seed

ABOUT = {
    "data": "data.name",
    "model": "model.name",
    "optimiser": "optim.name",
    "epochs": "train.epochs",
    "steps per task": "train.steps",
    "samples in memory": "memory.total",
    "samples of a class in memory": "memory.per_class",
}


class Shown(NamedTuple):
    """A table with what is said of it: *name* for people, *text* in sentences."""

    name: str
    text: str
    table: Table


@dataclass(frozen=True)
class Section:
    """One benchmark. Its tables are made when they are first asked for, and once for all forms of the report."""

    anchor: str
    benchmark: Benchmark
    choices: tuple[Choice, ...]
    families: tuple[Family, ...]
    protocol: Protocol

    @property
    def about(self) -> str:
        """What the benchmark is, in one line."""
        seeds = len(self.benchmark.seeds)
        numbers = sorted({variant.tasks for variant in self.benchmark.variants} - {0})  # a study may vary it
        tasks = f", {' or '.join(map(str, numbers))} tasks" if numbers else ""
        counted = f"{seeds} seed{'s' if seeds > 1 else ''}"
        found = ((name, self.protocol.values(key)) for name, key in ABOUT.items())
        facts = "; ".join(f"{name}: {' or '.join(values)}" for name, values in found if values)
        return f"{self.benchmark.name}, {self.benchmark.scenario}-incremental{tasks}, {counted}; {facts}"

    @cached_property
    def headline(self) -> Table:
        """Variant by metric."""
        return headline(self.benchmark)

    @cached_property
    def every_metric(self) -> Table:
        """Metric by variant."""
        return every_metric(self.benchmark)

    @cached_property
    def per_seed(self) -> Table:
        """Run by metric."""
        return per_seed(self.benchmark)

    @property
    def in_full(self) -> str:
        """Of which methods all variants are shown, and why none was selected; "" if there are none."""
        return in_full(self.choices)

    @property
    def significance(self) -> str:
        """What the seeds allow to be claimed, in one sentence."""
        return significance(self.benchmark, is_tested=bool(self.families))

    @property
    def compared(self) -> str:
        """What its methods are compared with, as a heading; "" where nothing is compared."""
        found = self.families[:1]
        return "".join(f"Compared with {one.baseline}" if one.baseline else "All pairs of methods" for one in found)

    @cached_property
    def comparisons(self) -> tuple[Shown, ...]:
        """One table of tests per metric, `acc` first."""
        return shown(self.families)

    @cached_property
    def selections(self) -> tuple[Shown, ...]:
        """One table per method, or value of its factors, that has several variants."""
        grids = [choice for choice in self.choices if choice.is_grid]
        return tuple(Shown(grid.title, grid.statement, selection_table(grid)) for grid in grids)


def shown(found: Sequence[Family]) -> tuple[Shown, ...]:
    """Return *found* as tables with what is said of each."""
    return tuple(Shown(one.metric.name, statement(one), comparison_table(one)) for one in found)
