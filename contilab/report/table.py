"""Tables of a report, independent of how they are written: columns, lines of cells, and notes that cells refer to."""

from collections.abc import Iterable, Sequence
from string import ascii_lowercase
from typing import NamedTuple

from contilab.metrics.contract import Absent, Metric
from contilab.metrics.table import METRICS, metric
from contilab.report.benchmark import Benchmark, Variant
from contilab.report.numbers import number
from contilab.report.runs import RunReport
from contilab.report.summary import Summary
from contilab.store.layout import short

HEADLINE = ("acc", "aia", "learning_accuracy", "bwt", "forgetting", "fwt", "ece", "recency_bias")


class Column(NamedTuple):
    """A column: *name*, what it means, and which direction is better ("higher", "lower" or "")."""

    name: str
    meaning: str = ""
    better: str = ""


class Entry(NamedTuple):
    """A cell: its value as text, what stands below it (sd and n), marks of notes, and a share of 1 to draw, if any."""

    text: str
    detail: str = ""
    marks: tuple[str, ...] = ()
    share: float | None = None


class Line(NamedTuple):
    """A line: its head, what is to be said of it, and one cell per column."""

    head: str
    detail: str
    entries: tuple[Entry, ...]


class Table(NamedTuple):
    """A table. *corner* heads the column of the line heads; *notes* are (mark, text)."""

    corner: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    notes: tuple[tuple[str, str], ...]


class Notes:
    """Gives each reason one mark, a, b, c, in the order of first use."""

    def __init__(self) -> None:
        self.marks: dict[str, str] = {}

    def mark(self, reasons: Iterable[str]) -> tuple[str, ...]:
        """Return the marks of *reasons*."""
        return tuple(self.marks.setdefault(reason, _letters(len(self.marks))) for reason in reasons)

    @property
    def items(self) -> tuple[tuple[str, str], ...]:
        """All notes as (mark, reason)."""
        return tuple((mark, reason) for reason, mark in self.marks.items())


def headline(benchmark: Benchmark) -> Table:
    """Return variant by metric: mean, sd and n; metrics that no variant has are named in a note instead."""
    notes = Notes()
    metrics = _measured(benchmark)
    lines = tuple(
        Line(variant.label, _mixed(variant), tuple(_summary(variant, item, notes) for item in metrics))
        for variant in benchmark.variants
    )
    left_out = [
        ("", f"{name}: {benchmark.variants[0].summary(name).reasons[0]}")
        for name in HEADLINE
        if metric(name) not in metrics and benchmark.fewest_seeds
    ]
    return Table("method", tuple(map(_column, metrics)), lines, (*notes.items, *left_out))


def every_metric(benchmark: Benchmark) -> Table:
    """Return metric by variant: mean, sd and n of everything that is computed."""
    notes = Notes()
    lines = tuple(
        Line(item.name, item.unit, tuple(_summary(variant, item, notes) for variant in benchmark.variants))
        for item in map(metric, METRICS)
    )
    columns = tuple(Column(variant.label) for variant in benchmark.variants)
    return Table("metric", columns, lines, notes.items)


def per_seed(benchmark: Benchmark) -> Table:
    """Return run by metric: the values behind the means, the state of each run and the beginning of its address."""
    notes = Notes()
    metrics = _measured(benchmark)
    lines = tuple(
        Line(variant.label, "", (Entry(str(run.seed)), Entry(run.state), *_values(run, metrics, notes), Entry(short(run.rid))))
        for variant in benchmark.variants
        for run in variant.runs
    )
    columns = (
        Column("seed"),
        Column("state"),
        *map(_column, metrics),
        Column("run", "the first 12 digits of the address of the run"),
    )
    return Table("method", columns, lines, notes.items)


def _measured(benchmark: Benchmark) -> list[Metric]:
    """Return the metrics of the headline that some variant has."""
    return [metric(name) for name in HEADLINE if any(variant.summary(name).n for variant in benchmark.variants)]


def _column(item: Metric) -> Column:
    better = {True: "higher", False: "lower", None: ""}[item.higher_is_better]
    return Column(item.name, item.summary, better)


def _summary(variant: Variant, item: Metric, notes: Notes) -> Entry:
    found = variant.summary(item.name)
    marks = notes.mark(found.reasons)
    if found.mean is None:
        return Entry("–", "", marks)
    share = found.mean if item.name == "acc" else None
    detail = _groups(found, item.unit) if item.is_of_group else spread(found.sd, found.n, len(variant.runs), item.unit)
    return Entry(number(found.mean, item.unit), detail, marks, share)


def spread(sd: float | None, n: int, planned: int, unit: str) -> str:
    """Return what stands below a mean: its sd, and the seeds behind both.

    >>> spread(0.0123, 3, 4, "fraction"), spread(None, 1, 1, "seconds")
    ('sd 0.0123, n 3 of 4', 'n 1')
    """
    seeds = f"n {n}" if n == planned else f"n {n} of {planned}"
    return seeds if sd is None else f"sd {number(sd, unit)}, {seeds}"


def _groups(found: Summary, unit: str) -> str:
    groups = f"{found.n} group{'s' if found.n > 1 else ''}"
    return groups if found.sd is None else f"sd {number(found.sd, unit)}, {groups}"


def _values(run: RunReport, metrics: Sequence[Metric], notes: Notes) -> Iterable[Entry]:
    for item in metrics:
        value = run.values[item.name]
        yield Entry("–", "", notes.mark([value.reason])) if isinstance(value, Absent) else Entry(number(value, item.unit))


def _mixed(variant: Variant) -> str:
    return f"mixed: {'; '.join(variant.mixed)}" if variant.mixed else ""


def _letters(index: int) -> str:
    head, last = divmod(index, len(ascii_lowercase))
    return (_letters(head - 1) if head else "") + ascii_lowercase[last]
