"""Two studies side by side: the same cells, paired by seed; what differs in their protocols stands before the numbers."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from contilab.errors import InputError
from contilab.metrics.scenario import require_one_scenario
from contilab.metrics.table import metric
from contilab.report.benchmark import Benchmark, Variant
from contilab.report.comparison import Family, family
from contilab.report.protocol import settings
from contilab.report.table import HEADLINE
from contilab.store.store import Store

Pair = tuple[Variant, Variant]  # of the other study, of this one


class Against(NamedTuple):
    """One benchmark in two studies. *differences*: per cell, the settings that differ; *shared*: runs that are the same."""

    other: str
    preset: str
    families: tuple[Family, ...]
    differences: dict[str, tuple[str, ...]]
    shared: int


def against(store: Store, ours: Sequence[Benchmark], theirs: Sequence[Benchmark], other: str) -> tuple[Against, ...]:
    """Return the comparison of the benchmarks that both studies have, each cell minus the same cell of *other*.

    Benchmarks are the same if preset, data and scenario are. InputError if there is none, naming both sides; results of
    different scenarios are never compared.
    """
    places = {(item.preset, item.name, item.scenario): item for item in theirs}
    found = [
        _against(store, pairs, benchmark.preset, other)
        for benchmark in ours
        if (match := places.get((benchmark.preset, benchmark.name, benchmark.scenario)))
        and (pairs := list(_pairs(match, benchmark)))
    ]
    if not found:
        _refuse(ours, theirs, other)
    return tuple(found)


def _against(store: Store, pairs: Sequence[Pair], preset: str, other: str) -> Against:
    measured = (item for item in map(metric, HEADLINE) if any(ours.summary(item.name).n for _, ours in pairs))
    families = tuple(family(item, pairs, f"the same cell of {other}") for item in measured)
    differences = {ours.label: tuple(_differences(store, theirs, ours)) for theirs, ours in pairs}
    shared = sum(len({run.rid for run in theirs.runs} & {run.rid for run in ours.runs}) for theirs, ours in pairs)
    return Against(other, preset, families, differences, shared)


def _pairs(theirs: Benchmark, ours: Benchmark) -> Iterable[Pair]:
    """Return the cells of equal label, or of equal method where both studies have one variant of it."""
    by_label = {variant.label: variant for variant in theirs.variants}
    for variant in ours.variants:
        method = variant.runs[0].cell.method
        alone = [[v for v in side.variants if v.runs[0].cell.method == method] for side in (theirs, ours)]
        if variant.label in by_label:
            yield by_label[variant.label], variant
        elif all(len(found) == 1 for found in alone):
            yield alone[0][0], variant


def _differences(store: Store, theirs: Variant, ours: Variant) -> Iterable[str]:
    old, new = settings(store, theirs), settings(store, ours)
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            yield f"{key}: {new.get(key, 'none')} here, {old.get(key, 'none')} there"


def _refuse(ours: Sequence[Benchmark], theirs: Sequence[Benchmark], other: str) -> None:
    for mine in ours:
        for its in theirs:
            if mine.name == its.name and len(ours) == len(theirs) == 1:
                require_one_scenario({mine.preset: mine.scenario, f"{its.preset} of {other}": its.scenario})
    sides = (sorted({f"{item.preset} ({item.name}, {item.scenario})" for item in side}) for side in (ours, theirs))
    here, there = (", ".join(side) for side in sides)
    hint = "compare studies that share a preset and a method"
    raise InputError(
        "--compare", f"no cell is in both studies: here {here or 'none'}; {other} has {there or 'none'}", hint=hint
    )
