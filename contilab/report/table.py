"""Tables of a report, independent of how they are written: columns, lines of cells, and notes that cells refer to."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from string import ascii_lowercase
from typing import NamedTuple

from contilab.metrics.contract import Absent, Metric, Value
from contilab.metrics.table import metric
from contilab.report.benchmark import NOT_COMPUTED, Benchmark, Variant
from contilab.report.mixture import differing_seeds
from contilab.report.numbers import number
from contilab.report.schedule import schedules
from contilab.report.statistics.outlier import MEANING, outliers
from contilab.report.summary import Summary
from contilab.store.layout import short

RECORDING = re.compile(r"(?:no [^:]+ was|[^:]+ was not) recorded: (.+)")  # what metrics of recordings say
OUTLIER = "outlier"  # what stands below a value that is one
ARROWS = {True: " ↑", False: " ↓", None: ""}  # which direction is better
HEADLINE = ("acc", "aia", "learning_accuracy", "bwt", "forgetting", "fwt", "ece", "recency_bias")


class Column(NamedTuple):
    """A column: *name*, what it means, and which direction is better ("higher", "lower" or "")."""

    name: str
    meaning: str = ""
    better: str = ""


class Entry(NamedTuple):
    """A cell: its value as text, what stands below it (sd and n), marks of notes, and a share of 1 to draw, if any.

    tip: what is shown on demand, such as the values of the seeds, one per line. sort: the number it is sorted by.
    """

    text: str
    detail: str = ""
    marks: tuple[str, ...] = ()
    share: float | None = None
    tip: str = ""
    sort: float | None = None


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
    left_out = _left_out(benchmark, [name for name in HEADLINE if metric(name) not in metrics])
    return Table("method", tuple(map(_column, metrics)), lines, (*notes.items, *left_out))


def every_metric(benchmark: Benchmark) -> Table:
    """Return metric by variant: mean, sd and n of everything that is computed; what no variant has is named in a note.

    Values of evaluation streams that were evaluated by different schedules are marked.
    """
    notes = Notes()
    found = [item for item in benchmark.metrics.values() if any(variant.count(item.name) for variant in benchmark.variants)]
    heads = {item.name: (item.name, item.unit + ARROWS[item.higher_is_better]) for item in found}
    lines = tuple(Line(*heads[item.name], tuple(_beside(benchmark.variants, item, notes))) for item in found)
    columns = tuple(Column(variant.label) for variant in benchmark.variants)
    left_out = _left_out(benchmark, [item.name for item in benchmark.metrics.values() if item not in found])
    return Table("metric", columns, lines, (*notes.items, *left_out))


def per_seed(benchmark: Benchmark) -> Table:
    """Return run by metric: the values behind the means, the state of each run and the beginning of its address."""
    notes = Notes()
    metrics = _measured(benchmark)
    lines = tuple(
        Line(variant.label, "", (Entry(str(run.seed), sort=run.seed), Entry(run.state), *values, Entry(short(run.rid))))
        for variant in benchmark.variants
        for run, values in zip(variant.runs, _values(variant, metrics, notes), strict=True)
    )
    columns = (
        Column("seed"),
        Column("state"),
        *map(_column, metrics),
        Column("run", "the first 12 digits of the address of the run"),
    )
    is_marked = any(entry.detail == OUTLIER for line in lines for entry in line.entries)
    return Table("method", columns, lines, (*notes.items, *([("", MEANING)] if is_marked else [])))


def _measured(benchmark: Benchmark) -> list[Metric]:
    """Return the metrics of the headline that some variant has."""
    return [metric(name) for name in HEADLINE if any(variant.count(name) for variant in benchmark.variants)]


def _left_out(benchmark: Benchmark, names: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Return a note per reason, with the metrics of *names*, which no variant has, for it; none before there is an `acc`."""
    reasons: dict[str, list[str]] = {}
    for name in names if benchmark.fewest_seeds else ():
        reasons.setdefault(common(_reason(benchmark, name)), []).append(name)
    return [("", f"{', '.join(found)}: {reason}") for reason, found in reasons.items()]


def _reason(benchmark: Benchmark, name: str) -> str:
    """Return why no run has the metric *name*: for most of those that finished, in stages if there are some."""
    done = [run for run in benchmark.runs if run.state == "finished"]
    telling = [run for run in done if run.record and run.record.stages > 1] or done or list(benchmark.runs)
    found = Counter(value.reason for run in telling if isinstance(value := run.values.get(name, NOT_COMPUTED), Absent))
    return found.most_common(1)[0][0] if found else NOT_COMPUTED.reason


def common(reason: str) -> str:
    """Return *reason* without the name of what was not recorded, so that metrics of different recordings share it.

    >>> common("learning_curve was not recorded: it needs eval.tier extended"), common("one task only")
    ('not recorded (it needs eval.tier extended)', 'one task only')
    """
    found = RECORDING.fullmatch(reason)
    return f"not recorded ({found[1]})" if found else reason


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
    tip = "" if item.is_of_group else seed_values(variant.by_seed(item.name), lambda value: number(value, item.unit))
    return Entry(number(found.mean, item.unit), detail, marks, share, tip, found.mean)


def _beside(variants: Sequence[Variant], item: Metric, notes: Notes) -> Iterable[Entry]:
    """Yield the entries of *item*; where streams of several schedules stand beside each other, each is marked with its own."""
    are_apart = len(schedules(variants, item.name)) > 1
    for variant in variants:
        entry = _summary(variant, item, notes)
        own = schedules([variant], item.name) if are_apart else ()
        marks = notes.mark(f"never compared with another schedule; this is {one}" for one in own)
        yield entry._replace(marks=(*entry.marks, *marks))


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


def _values(variant: Variant, metrics: Sequence[Metric], notes: Notes) -> Iterable[tuple[Entry, ...]]:
    """Return the entries of each run; a value that stands apart from those of the other seeds is marked."""
    columns = [variant.values(item.name) for item in metrics]
    apart = [iter(outliers([value for value in column if not isinstance(value, Absent)])) for column in columns]
    for row in zip(*columns, strict=True) if columns else [()] * len(variant.runs):
        yield tuple(
            Entry("–", "", notes.mark([value.reason]))
            if isinstance(value, Absent)
            else Entry(number(value, item.unit), OUTLIER if next(far) else "", sort=value)
            for value, item, far in zip(row, metrics, apart, strict=True)
        )


def seed_values(values: Mapping[int, Value], write: Callable[[float], str]) -> str:
    r"""Return values by seed for a tooltip, one line each; those that stand apart from the others are said to.

    >>> seed_values({0: 0.5, 1: Absent("no")}, "{:.2f}".format)
    'seed 0: 0.50\nseed 1: no'
    """
    apart = iter(outliers([value for value in values.values() if not isinstance(value, Absent)]))
    lines = (
        value.reason if isinstance(value, Absent) else write(value) + (" (outlier)" if next(apart) else "")
        for value in values.values()
    )
    return "\n".join(f"seed {seed}: {line}" for seed, line in zip(values, lines, strict=True))


def _mixed(variant: Variant) -> str:
    found = differing_seeds(variant)
    return f"mixed: {'; '.join(found)}" if found else ""


def _letters(index: int) -> str:
    head, last = divmod(index, len(ascii_lowercase))
    return (_letters(head - 1) if head else "") + ascii_lowercase[last]
