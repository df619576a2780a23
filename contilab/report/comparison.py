"""Is a method better than another one? Paired by seed, one family of tests per benchmark and metric, corrected by Holm.

d_s = metric(method, seed s) - metric(baseline, seed s). A family holds, on one metric of one benchmark, every method that can
be compared with the baseline, or every pair of methods; its size is stated with its results.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from contilab.metrics.contract import Absent, Metric
from contilab.metrics.table import metric
from contilab.report.benchmark import Benchmark, Variant
from contilab.report.schedule import schedules
from contilab.report.selection import Choice
from contilab.report.statistics.effect import Effect, effect
from contilab.report.statistics.family import holm
from contilab.report.statistics.interval import Interval, bootstrap_interval, t_interval
from contilab.report.statistics.paired import LEVEL, minimum_p, nonzero, sign_flip, wilcoxon
from contilab.report.table import HEADLINE

BASELINE = "naive"  # unless the user names another one


class Paired(NamedTuple):
    """The tests of one method against the baseline. *minimum*: the least p that its differences allow."""

    differences: dict[int, float]
    effect: Effect
    p: float
    wilcoxon: float
    minimum: float
    bootstrap: Interval | Absent
    t: Interval | Absent


class Comparison(NamedTuple):
    """The method *label* against *baseline*: what was found, or why nothing can be said; *adjusted* is p after Holm."""

    label: str
    baseline: str
    found: Paired | Absent
    adjusted: float = 1.0


class Family(NamedTuple):
    """All comparisons on one metric of one benchmark: with one *baseline*, or "" for all pairs of methods."""

    metric: Metric
    baseline: str
    comparisons: tuple[Comparison, ...]

    @property
    def size(self) -> int:
        """How many tests the family holds: what Holm corrects for."""
        return sum(not isinstance(item.found, Absent) for item in self.comparisons)

    def name(self, comparison: Comparison) -> str:
        """Return what people call *comparison* within this family."""
        return comparison.label if self.baseline else f"{comparison.label} minus {comparison.baseline}"

    def verdict(self, comparison: Comparison) -> str:
        """Return what may be said of *comparison*; "" if it was not made."""
        if isinstance(comparison.found, Absent):
            return ""
        if comparison.adjusted <= LEVEL:
            return "significant"
        return "cannot be significant" if self._is_hopeless(comparison.found) else "not significant"

    def _is_hopeless(self, found: Paired) -> bool:
        """Whether its seeds allow no p below the level, or those of no member allow Holm's first step."""
        least = min(item.found.minimum for item in self.comparisons if not isinstance(item.found, Absent))
        return found.minimum > LEVEL or self.size * least > LEVEL


def families(
    benchmark: Benchmark, chosen: Sequence[Choice], baseline: str = "", *, has_all_pairs: bool = False
) -> tuple[Family, ...]:
    """Return a family per metric; none without a baseline, or with nothing beside it.

    *baseline* is a method or the label of a variant; "" is naive, else the first method of the manifest. has_all_pairs: each
    method is compared with each other one, the later minus the earlier of both, of which the baseline is the first.
    """
    candidates = [variant for choice in chosen for variant in choice.candidates]
    base = _baseline(candidates, benchmark.variants, baseline)
    others = [variant for variant in candidates if variant is not base]
    if base is None or not others:
        return ()
    pairs = list(combinations([base, *others], 2)) if has_all_pairs else [(base, variant) for variant in others]
    measured = [item for item in map(metric, HEADLINE) if any(variant.summary(item.name).n for variant in benchmark.variants)]
    return tuple(family(item, pairs, "" if has_all_pairs else base.label) for item in measured)


def family(item: Metric, pairs: Sequence[tuple[Variant, Variant]], baseline: str = "") -> Family:
    """Return the comparisons on one metric of *pairs*, each a baseline and what is compared with it.

    *baseline*: what all of them are compared with; "" where each pair has its own.
    """
    found = [_compared(item, base, variant) for base, variant in pairs]
    adjusted = iter(holm([result.p for result in found if isinstance(result, Paired)]))
    comparisons = tuple(
        Comparison(variant.label, baseline or base.label, result, next(adjusted) if isinstance(result, Paired) else 1.0)
        for (base, variant), result in zip(pairs, found, strict=True)
    )
    return Family(item, baseline, comparisons)


def paired(differences: dict[int, float], item: Metric) -> Paired:
    """Return all tests of *differences* by seed; at least one is needed."""
    d = list(differences.values())
    least = minimum_p(len(nonzero(d)))
    size = effect(d, higher_is_better=item.higher_is_better is not False)
    return Paired(differences, size, sign_flip(d), wilcoxon(d), least, bootstrap_interval(d), t_interval(d))


def _compared(item: Metric, base: Variant, variant: Variant) -> Paired | Absent:
    looked = schedules((base, variant), item.name)
    if len(looked) > 1:
        return Absent(f"{base.label} and {variant.label} have streams of different schedules: {', '.join(looked)}")
    ours, theirs = variant.by_seed(item.name), base.by_seed(item.name)
    differences, reasons = dict[int, float](), []
    for seed in sorted(ours.keys() & theirs.keys()):
        a, b = ours[seed], theirs[seed]
        if isinstance(a, Absent):
            reasons.append(a.reason)
        elif isinstance(b, Absent):
            reasons.append(f"{base.label}: {b.reason}")
        else:
            differences[seed] = a - b
    if not differences:
        return Absent(reasons[0] if reasons else "no seed in common")
    return paired(differences, item)


def _baseline(candidates: Sequence[Variant], variants: Sequence[Variant], name: str) -> Variant | None:
    """Return the baseline: a method is meant with the variant that stands for it, a label as it is written."""
    wanted = name or BASELINE
    for variant in candidates:
        if wanted in (variant.label, variant.runs[0].cell.method):
            return variant
    named = [variant for variant in variants if variant.label == name]
    return named[0] if named else None if name or not candidates else candidates[0]
