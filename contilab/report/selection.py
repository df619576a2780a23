"""Which variant of a method stands for it: chosen on validation samples only, so that test samples stay unseen.

The variants of a method are the points of its sweep; keys of `[matrix]` are factors of the study, so each of their values
has a choice of its own. The score is the mean of `acc_validation` over seeds. A point that lacks seeds that another one
has cannot be chosen: a mean over the seeds that did not diverge would flatter it. Ties go to the earlier point.
"""

import json
import tomllib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from contilab.report.benchmark import Benchmark, Variant, plain
from contilab.report.settings import flat
from contilab.report.summary import Summary
from contilab.spec.study import Study

CRITERION = "acc_validation"


class Point(NamedTuple):
    """One point of a grid: its *settings* by key, and the validation *score* over seeds."""

    variant: Variant
    settings: Mapping[str, Any]
    score: Summary


class Choice(NamedTuple):
    """The variants of one method and what stands for it: *chosen*, or None with the *reason*."""

    method: str
    points: tuple[Point, ...]
    chosen: Variant | None
    reason: str = ""

    @property
    def is_grid(self) -> bool:
        """There was something to choose from."""
        return len(self.points) > 1

    @property
    def candidates(self) -> tuple[Variant, ...]:
        """What enters comparisons: the chosen variant, or all of them where none could be chosen."""
        return (self.chosen,) if self.chosen else tuple(point.variant for point in self.points)


def choices(benchmark: Benchmark, factors: Collection[str] = ()) -> tuple[Choice, ...]:
    """Return one choice per method of *benchmark* and value of the *factors*, in the order of the manifest."""
    groups: dict[str, list[Variant]] = {}
    for variant in benchmark.variants:
        cell = variant.runs[0].cell
        fixed = {key: value for key, value in cell.sweep.items() if key in factors}
        groups.setdefault(json.dumps([cell.method, fixed], sort_keys=True), []).append(variant)
    return tuple(_choice(group, factors) for group in groups.values())


def factors(study: Study) -> frozenset[str]:
    r"""Return the keys that the matrix of *study* varies besides preset, method and seed: what is compared, not chosen.

    >>> factors(Study(name="a", manifest="[matrix]\nseed = [0]\n'memory.total' = [1, 2]", values=(), cells=()))
    frozenset({'memory.total'})
    """
    try:
        matrix = tomllib.loads(study.manifest).get("matrix", {})
    except tomllib.TOMLDecodeError:  # a manifest that was made by hand, such as that of a test
        matrix = {}
    asked = (value.partition("=")[0].strip() for value in study.values)
    keys = {*flat(matrix), *(key.removeprefix("matrix.") for key in asked if key.startswith("matrix."))}
    return frozenset(keys - {"preset", "method", "method.name", "seed"})


def selected(found: Iterable[Choice]) -> dict[str, bool]:
    """Return, by run, whether it is of the chosen variant; runs of methods without a choice are left out."""
    return {
        run.rid: point.variant is choice.chosen
        for choice in found
        if choice.chosen
        for point in choice.points
        for run in point.variant.runs
    }


def selection_json(found: Iterable[tuple[Benchmark, Iterable[Choice]]]) -> bytes:
    """Return the grids, scores and choices by preset, for programs; a study may vary the benchmark of a preset."""
    presets: dict[str, list[dict[str, Any]]] = {}
    for benchmark, group in found:
        grids = [_table(choice) for choice in group if choice.is_grid]
        place = {"benchmark": benchmark.name, "scenario": benchmark.scenario}
        presets.setdefault(benchmark.preset, []).extend({**place, **grid} for grid in grids)
    table = {"criterion": CRITERION, "rule": "largest mean over seeds, ties to the earlier point", "presets": presets}
    return (json.dumps(table, indent=1, ensure_ascii=False) + "\n").encode()


def _choice(group: list[Variant], factors: Collection[str]) -> Choice:
    method = group[0].runs[0].cell.method
    points = tuple(
        Point(variant, {k: v for k, v in variant.runs[0].cell.sweep.items() if k not in factors}, variant.summary(CRITERION))
        for variant in group
    )
    if len(points) == 1:
        return Choice(method, points, group[0])
    most = max(point.score.n for point in points)
    if not most:
        return Choice(method, points, None, f"nothing was chosen: {points[0].score.reasons[0]}")
    complete = [point for point in points if point.score.n == most]
    best = max(complete, key=lambda point: point.score.mean or 0.0)  # the first of equals
    return Choice(method, points, best.variant)


def _table(choice: Choice) -> dict[str, Any]:
    grid = [
        {
            "settings": {
                key: value if isinstance(value, int | float | str | bool) else plain(value) for key, value in p.settings.items()
            },
            "score": p.score.mean,
            "seeds": p.score.n,
            "selected": p.variant is choice.chosen,
        }
        for p in choice.points
    ]
    return {"method": choice.method, "grid": grid, **({"reason": choice.reason} if choice.reason else {})}
