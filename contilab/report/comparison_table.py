"""Comparisons and selections as tables for people, and comparisons.csv for programs."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from contilab.metrics.contract import Absent, Metric, Value
from contilab.metrics.table import metric
from contilab.report.benchmark import Benchmark, Variant, plain
from contilab.report.comparison import Comparison, Family, Paired
from contilab.report.numbers import number, signed
from contilab.report.rows import csv_of, swept_keys
from contilab.report.selection import CRITERION, Choice
from contilab.report.statistics.interval import Interval, coverage
from contilab.report.statistics.paired import seeds_needed
from contilab.report.summary import summarise
from contilab.report.table import Column, Entry, Line, Notes, Table, seed_values, spread

COLUMNS = (
    Column("difference", "mean over seeds of method minus baseline, with sd (n - 1)"),
    Column("p", "exact two-sided sign-flip permutation test; below it Wilcoxon's test, and the least p that the seeds allow"),
    Column("p, Holm", "p corrected for the tests of this family"),
    Column("at .05", "what may be said at the level of .05"),
    Column(
        "95 % interval", "of the mean difference: Student's t; below it the percentile bootstrap, 10,000 resamples of the seeds"
    ),
    Column("mean / sd", "the mean difference in standard deviations of the differences"),
    Column("won / tied / lost", "seeds on which the method is better than, equal to and worse than the baseline"),
)
FIELDS = (
    *("preset", "scenario", "metric", "baseline", "method", "family_size", "n", "mean_difference", "p", "p_holm", "verdict"),
    *("bootstrap_low", "bootstrap_high", "t_low", "t_high", "standardised", "won", "tied", "lost", "p_wilcoxon", "p_least"),
    *("differences", "reason"),
)


def comparison_table(family: Family) -> Table:
    """Return method, or pair of methods, by test, for one metric of one benchmark."""
    notes = Notes()
    lines = tuple(Line(family.name(item), "", tuple(_entries(family, item, notes))) for item in family.comparisons)
    return Table("method" if family.baseline else "pair", COLUMNS, lines, notes.items)


def statement(family: Family) -> str:
    """Return what *family* is, what its seeds allow, and how far its intervals can be trusted, in sentences."""
    found = [item.found for item in family.comparisons if isinstance(item.found, Paired)]
    if not found:
        return f"{family.metric.name}: nothing could be compared{family.baseline and f' with {family.baseline}'}."
    fewest, seeds = (pick(len(one.differences) for one in found) for pick in (min, max))
    tests = f"{family.size} test{'s' if family.size > 1 else ''}"
    what = f"each method minus {family.baseline}" if family.baseline else "each pair of methods, the second its baseline"
    parts = [f"{family.metric.name}, {what}, paired by seed; one Holm family of {tests}."]
    need = seeds_needed(family.size)
    if seeds < need:
        parts.append(f"With {_counted(seeds)} none can be significant at .05 after Holm: {tests} need {need} seeds.")
    share = coverage(fewest)
    if share:
        parts.append(f"Over {_counted(fewest)} the nominal 95 % bootstrap interval holds the mean in about {share} % of cases.")
    return " ".join(parts)


def selection_table(choice: Choice) -> Table:
    """Return grid point by score, the chosen one marked; where none was chosen, by accuracy, which then decides nothing."""
    notes = Notes()
    keys = list(dict.fromkeys(key for point in choice.points for key in point.settings))
    score = metric(CRITERION if choice.chosen else "acc")
    lines = []
    for point in choice.points:
        settings = (Entry(plain(point.settings.get(key, "")), sort=_sortable(point.settings.get(key))) for key in keys)
        mark = (Entry("yes" if point.variant is choice.chosen else ""),) if choice.chosen else ()
        lines.append(Line(point.variant.label, "", (*settings, _mean(point.variant, score, notes), *mark)))
    columns = (*map(Column, keys), Column(score.name, f"{score.summary}; mean over seeds", "higher"))
    selected = (Column("selected"),) if choice.chosen else ()
    return Table("variant", (*columns, *selected), tuple(lines), notes.items)


def comparisons_csv(found: Sequence[tuple[Benchmark, Sequence[Family]]]) -> bytes:
    """Return comparisons.csv: one row per comparison, and one column per key that varies in the study."""
    keys = swept_keys([run for benchmark, _ in found for run in benchmark.runs])
    place = FIELDS.index("method") + 1
    header = (*FIELDS[:place], *keys, *FIELDS[place:])
    compared = (row for benchmark, families in found for row in comparison_rows(benchmark, families))
    return csv_of(header, ({**dict.fromkeys(header), **row} for row in compared))


def comparison_rows(benchmark: Benchmark, families: Iterable[Family]) -> Iterable[dict[str, Any]]:
    """Return one row per comparison, by the names of `FIELDS` and the keys that its method varies; None where absent."""
    settings = {variant.label: variant.runs[0].cell.sweep for variant in benchmark.variants}
    for family in families:
        for item in family.comparisons:
            yield {
                **dict.fromkeys(FIELDS),
                "preset": benchmark.preset,
                "scenario": benchmark.scenario,
                "metric": family.metric.name,
                "baseline": item.baseline,
                "method": item.label,
                **settings[item.label],
                "family_size": family.size,
                **_facts(family, item),
            }


def _mean(variant: Variant, item: Metric, notes: Notes) -> Entry:
    found = variant.summary(item.name)
    marks = notes.mark(found.reasons)
    if found.mean is None:
        return Entry("–", "", marks)
    return Entry(number(found.mean, item.unit), spread(found.sd, found.n, len(variant.runs), item.unit), marks, sort=found.mean)


def _entries(family: Family, item: Comparison, notes: Notes) -> Sequence[Entry]:
    found = item.found
    if isinstance(found, Absent):
        return (Entry("–", "", notes.mark([found.reason])), *(Entry("") for _ in COLUMNS[1:]))
    unit, size = family.metric.unit, found.effect
    values = dict[int, Value](found.differences)
    sd = spread(_sd(found), len(values), len(values), unit)
    return (
        Entry(signed(size.mean, unit), sd, tip=seed_values(values, lambda value: signed(value, unit)), sort=size.mean),
        Entry(_short(found.p), f"Wilcoxon {_short(found.wilcoxon)}, least {_short(found.minimum)}", sort=found.p),
        Entry(_short(item.adjusted), sort=item.adjusted),
        Entry(family.verdict(item)),
        _interval(found, unit, notes),
        _standardised(size.standardised, notes),
        Entry(f"{size.won} / {size.tied} / {size.lost}", sort=float(size.won - size.lost)),
    )


def _facts(family: Family, item: Comparison) -> dict[str, Any]:
    found = item.found
    if isinstance(found, Absent):
        return {"reason": found.reason, "n": 0}
    size = found.effect
    ends = {
        f"{name}_{end}": getattr(interval, end)
        for name, interval in (("bootstrap", found.bootstrap), ("t", found.t))
        if isinstance(interval, Interval)
        for end in ("low", "high")
    }
    return {
        "n": len(found.differences),
        "mean_difference": size.mean,
        "p": found.p,
        "p_holm": item.adjusted,
        "verdict": family.verdict(item),
        "won": size.won,
        "tied": size.tied,
        "lost": size.lost,
        "p_wilcoxon": found.wilcoxon,
        "p_least": found.minimum,
        **ends,
        "standardised": None if isinstance(size.standardised, Absent) else size.standardised,
        "differences": json.dumps({str(seed): value for seed, value in found.differences.items()}),
    }


def _sd(found: Paired) -> float | None:
    return summarise(found.differences.values()).sd


def _short(p: float) -> str:
    return f"{p:.4g}".removeprefix("0") if p < 1 else "1"


def _interval(found: Paired, unit: str, notes: Notes) -> Entry:
    bootstrap = "" if isinstance(found.bootstrap, Absent) else f"bootstrap {_ends(found.bootstrap, unit)}"
    if isinstance(found.t, Absent):
        return Entry("–", bootstrap, notes.mark([found.t.reason]))
    return Entry(_ends(found.t, unit), bootstrap, sort=found.t.low)


def _ends(interval: Interval, unit: str) -> str:
    return f"{signed(interval.low, unit)} to {signed(interval.high, unit)}"


def _standardised(value: Value, notes: Notes) -> Entry:
    if isinstance(value, Absent):
        return Entry("–", "", notes.mark([value.reason]))
    return Entry(f"{value:+.0f}" if abs(value) >= 99.95 else f"{value:+#.3g}", sort=value)  # three digits


def _sortable(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _counted(seeds: int) -> str:
    return f"{seeds} seed{'s' if seeds > 1 else ''}"
