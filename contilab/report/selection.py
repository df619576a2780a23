"""Which variant of a method stands for it: chosen on validation samples only, so that test samples stay unseen.

The variants of a method are the points of its sweep. Where they differ in hyperparameters one of them is chosen; the score is
the mean of `acc_validation` over seeds. A point that lacks seeds that another one has cannot be chosen: a mean over the seeds
that did not diverge would flatter it. Ties go to the earlier point.

Other keys are factors, what the study asks about: those of `[matrix]`, and wherever they stand the stream that is learned, what
is measured of it, the arithmetic, and the size of memory, which is a budget: that more samples give more is no choice. Nothing
is chosen among the values of a factor: each of them is shown, with a choice of its own where hyperparameters vary as well.
"""

import json
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from contilab.report.benchmark import Benchmark, Variant, label, plain, varying
from contilab.report.settings import flat
from contilab.report.summary import Summary
from contilab.spec.study import Study

CRITERION = "acc_validation"
RULE = f"largest mean of {CRITERION} over seeds, ties to the earlier point"
FACTORS = ("benchmark.", "engine.", "eval.", "memory.total", "memory.per_class")  # whatever table of the manifest varies them


class Point(NamedTuple):
    """One point of a grid: its *settings* by key, and the validation *score* over seeds."""

    variant: Variant
    settings: Mapping[str, Any]
    score: Summary


class Choice(NamedTuple):
    """The variants of one method and what stands for it: *chosen*, or None with the *reason*.

    name: the method, with the values of the *factors* that these variants share. is_question: the variants differ in factors
    only, so that none of them was to be chosen.
    """

    name: str
    method: str
    points: tuple[Point, ...]
    chosen: Variant | None
    reason: str = ""
    factors: Mapping[str, Any] = {}
    is_question: bool = False

    @property
    def is_grid(self) -> bool:
        """There are several variants."""
        return len(self.points) > 1

    @property
    def title(self) -> str:
        """What its table is."""
        return f"{'Selection' if self.chosen else 'Variants'} of {self.name}"

    @property
    def statement(self) -> str:
        """How the variant was selected, or why none was, as a sentence."""
        how = f"selected: {self.chosen.label}, by the {RULE}; test samples were not looked at" if self.chosen else self.reason
        return f"{how[0].upper()}{how[1:]}."

    @property
    def candidates(self) -> tuple[Variant, ...]:
        """What enters comparisons: the chosen variant, or all of them where none was chosen."""
        return (self.chosen,) if self.chosen else tuple(point.variant for point in self.points)


def choices(benchmark: Benchmark, asked: Collection[str] = ()) -> tuple[Choice, ...]:
    """Return one choice per method of *benchmark* and value of its factors, in the order of the manifest.

    asked: factors besides those that always are. Where only factors vary, all variants of the method are one choice.
    """
    methods: dict[str, list[Variant]] = {}
    for variant in benchmark.variants:
        methods.setdefault(variant.runs[0].cell.method, []).append(variant)
    return tuple(choice for method, group in methods.items() for choice in _choices(method, group, asked))


def in_full(found: Iterable[Choice]) -> str:
    """Return of which methods all variants are shown and why none was selected, in sentences; "" if there are none."""
    reasons: dict[str, list[str]] = {}
    for choice in found:
        if choice.chosen is None:
            reasons.setdefault(choice.reason, []).append(choice.name)
    return " ".join(f"{', '.join(names)}: {reason}." for reason, names in reasons.items())


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


def _choices(method: str, variants: Sequence[Variant], asked: Collection[str]) -> Iterable[Choice]:
    keys = varying([variant.runs[0].cell for variant in variants])
    fixed = [key for key in keys if key in asked or key.startswith(FACTORS)]
    groups: dict[str, list[Variant]] = {}
    for variant in variants:
        values = [variant.runs[0].cell.sweep.get(key) for key in fixed]
        groups.setdefault(json.dumps(values), []).append(variant)
    if 1 < len(groups) == len(variants):
        points = tuple(_point(variant, keys) for variant in variants)
        yield Choice(method, method, points, None, _all(points, f"{_listed(fixed)} on purpose"), is_question=True)
        return
    for group in groups.values():
        yield _choice(group, fixed, [key for key in keys if key not in fixed])


def _choice(group: Sequence[Variant], fixed: Sequence[str], keys: Sequence[str]) -> Choice:
    cell = group[0].runs[0].cell
    points = tuple(_point(variant, keys) for variant in group)
    whole = Choice(label(cell, fixed), cell.method, points, group[0], factors=_values(group[0], fixed))
    if len(points) == 1:
        return whole
    most = max(point.score.n for point in points)
    if not most:
        return whole._replace(chosen=None, reason=_all(points, points[0].score.reasons[0]))
    complete = [point for point in points if point.score.n == most]
    best = max(complete, key=lambda point: point.score.mean or 0.0)  # the first of equals
    return whole._replace(chosen=best.variant)


def _point(variant: Variant, keys: Sequence[str]) -> Point:
    return Point(variant, _values(variant, keys), variant.summary(CRITERION))


def _values(variant: Variant, keys: Sequence[str]) -> dict[str, Any]:
    sweep = variant.runs[0].cell.sweep
    return {key: sweep[key] for key in keys if key in sweep}


def _all(points: Sequence[Point], why: str) -> str:
    return f"all {len(points)} variants are shown; none was selected ({why})"


def _listed(keys: Sequence[str]) -> str:
    """Return *keys* as the subject of a sentence, with its verb.

    >>> _listed(["memory.total"]), _listed(["memory.total", "train.epochs"])
    ('memory.total varies', 'memory.total and train.epochs vary')
    """
    return f"{' and '.join(keys)} {'vary' if len(keys) > 1 else 'varies'}"


def _table(choice: Choice) -> dict[str, Any]:
    grid = [
        {
            "settings": _for_programs(point.settings),
            "score": point.score.mean,
            "seeds": point.score.n,
            "selected": point.variant is choice.chosen,
        }
        for point in choice.points
    ]
    factors = {"factors": _for_programs(choice.factors)} if choice.factors else {}
    return {"method": choice.method, **factors, "grid": grid, **({"reason": choice.reason} if choice.reason else {})}


def _for_programs(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value if isinstance(value, int | float | bool) else plain(value) for key, value in settings.items()}
