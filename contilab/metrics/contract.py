"""What a metric is: a pure function of what a run left, that returns a value or the reason why there is none.

A formula is written as in its paper and reads cells through `Evidence`. What it cannot do without is declared in
*needs*; an unmet need, or a cell that was not measured, makes the metric absent with a reason in one clause. Absent is
never 0 and never nan. Accuracies are fractions, matrices are indexed [after_task][test_task].
"""

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from contilab.records.record import Cost
from contilab.spec.sections import Scenario

if TYPE_CHECKING:
    import numpy as np

Row = tuple[float | None, ...]


class Absent(NamedTuple):
    """No value, and why, in one clause."""

    reason: str


Value = float | Absent


class Missing(Exception):
    """Raised while a formula reads what was not measured."""


class Evidence(NamedTuple):
    """What the formulas may read of one run with T tasks and S training stages (S = T, but 1 for joint training).

    matrix: up to S rows of T accuracies, None where not measured; a diverged run has fewer rows. all_rows: the same
    with the argmax over every row of the head. validation: the same on the samples held out of training. baseline:
    accuracies of the untrained model. sizes: test samples of each task. task_rows: head rows of each task. tensors:
    predictions as `contilab.records.outcome.Outcome` describes them. cumulative: R[j, j] of the cumulative run with the
    same seed and preset. diverged: {"task": t, "step": s}. kept: features and trajectory, see `contilab.metrics.kept`.
    """

    scenario: Scenario
    tasks: int
    stages: int
    matrix: tuple[Row, ...]
    all_rows: tuple[Row, ...] | None = None
    validation: tuple[Row, ...] | None = None
    baseline: Row | None = None
    sizes: tuple[int, ...] | None = None
    task_rows: tuple[tuple[int, ...], ...] | None = None
    tensors: "Mapping[str, np.ndarray[Any, Any]] | None" = None
    cost: Cost | None = None
    cumulative: Row | None = None
    diverged: Mapping[str, int] | None = None
    kept: "Mapping[str, np.ndarray[Any, Any]] | None" = None

    @property
    def is_joint(self) -> bool:
        """All tasks were learned in one stage."""
        return self.stages < self.tasks

    @property
    def last(self) -> int:
        """The index of the last row."""
        return self.stages - 1

    def cell(self, after: int, on: int) -> float:
        """Return R[after, on], the accuracy on task *on* after stage *after*."""
        return self._read(self.matrix, after, on)

    def reading(self, after: int, on: int) -> Value:
        """Return R[after, on], or why it is absent."""
        try:
            return self.cell(after, on)
        except Missing as missing:
            return Absent(str(missing))

    def all_rows_cell(self, after: int, on: int) -> float:
        """Return the accuracy on task *on* after stage *after* with the argmax over every row of the head."""
        return self._read(self.all_rows or (), after, on)

    def validation_cell(self, after: int, on: int) -> float:
        """Return the accuracy on the validation samples of task *on* after stage *after*."""
        return self._read(self.validation or (), after, on)

    def untrained(self, on: int) -> float:
        """Return b, the accuracy of the untrained model on task *on*."""
        value = self.baseline[on] if self.baseline else None
        if value is None:
            raise Missing(f"the untrained model was not measured on task {on}")
        return value

    def until(self, stage: int) -> "Evidence":
        """Return the evidence as it was after *stage*, so that a metric of the last row can be taken at any row."""
        if self.is_joint:
            return self
        tasks = stage + 1
        return self._replace(
            tasks=tasks,
            stages=tasks,
            matrix=tuple(row[:tasks] for row in self.matrix[:tasks]),
            all_rows=self.all_rows and tuple(row[:tasks] for row in self.all_rows[:tasks]),
            validation=self.validation and tuple(row[:tasks] for row in self.validation[:tasks]),
            baseline=self.baseline and self.baseline[:tasks],
            sizes=self.sizes and self.sizes[:tasks],
            task_rows=self.task_rows and self.task_rows[:tasks],
            cumulative=self.cumulative and self.cumulative[:tasks],
        )

    def lost(self, after: int) -> str:
        """Return why row *after* is not there."""
        if self.diverged:
            return f"the run diverged in task {self.diverged['task']} at step {self.diverged['step']}"
        return f"row {after} was not recorded"

    def _read(self, rows: tuple[Row, ...], after: int, on: int) -> float:
        if after >= len(rows) or all(cell is None for cell in rows[after]):
            raise Missing(self.lost(after))
        value = rows[after][on] if on < len(rows[after]) else None
        if value is None and self.scenario == "class" and on > after and not self.is_joint:
            raise Missing("classes not yet seen")
        if value is None:
            raise Missing(f"the accuracy on task {on} after task {after} was not measured")
        return value


Tier = Literal["core", "extended", "full"]


class Metric(NamedTuple):
    """A metric of the catalog.

    needs: names of `NEEDS`, checked in this order. unit: "fraction", "difference" (of two fractions, in -1 to 1) or a
    physical unit. paper: who defined it. tier: how much must be recorded. higher_is_better: None where neither is.
    is_of_group: measured once for all runs trained together, so that a mean over seeds would count it several times.
    version: of its numbers; values of another version are kept apart.
    """

    name: str
    function: Callable[[Evidence], float]
    summary: str
    needs: tuple[str, ...] = ()
    unit: str = "fraction"
    paper: str = ""
    tier: Tier = "core"
    higher_is_better: bool | None = True
    is_of_group: bool = False
    version: int = 1

    def of(self, evidence: Evidence) -> Value:
        """Return the value for *evidence*, or why there is none."""
        for need in self.needs:
            reason = NEEDS[need](evidence)
            if reason:
                return Absent(reason)
        try:
            value = float(self.function(evidence))
        except Missing as missing:
            return Absent(str(missing))
        return value if math.isfinite(value) else Absent("the formula has no finite value here")


def _unless(is_met: Callable[[Evidence], object], reason: str) -> Callable[[Evidence], str]:
    return lambda evidence: "" if is_met(evidence) else reason


NEEDS: dict[str, Callable[[Evidence], str]] = {
    "stages": _unless(lambda e: not e.is_joint, "joint has one training stage"),
    "two_tasks": _unless(lambda e: e.tasks > 1, "one task only"),
    "two_rows": _unless(lambda e: e.stages > 1, "one row only"),
    "future": _unless(lambda e: e.scenario != "class", "a task's classes are masked before it is learned"),
    "class_scenario": _unless(lambda e: e.scenario == "class", "defined for class-incremental runs only"),
    "baseline": _unless(lambda e: e.baseline, "the untrained model was not measured"),
    "sizes": _unless(lambda e: e.sizes, "the number of test samples of each task is not known"),
    "all_rows": _unless(lambda e: e.scenario != "class" or e.all_rows, "the argmax over all rows of the head was not recorded"),
    "validation": lambda e: (
        "" if e.validation else e.lost(0) if e.diverged else "no validation samples were held out of training"
    ),
    "cumulative": _unless(lambda e: e.cumulative, "no cumulative run with this seed and preset in the study"),
    "tensors": _unless(lambda e: e.tensors, "predictions were not recorded"),
    "language_model": _unless(lambda e: e.tensors and "perplexity" in e.tensors, "the model is no language model"),
    "cost": _unless(lambda e: e.cost, "costs were not recorded"),
}

HIGHEST = 999_999  # version: its file has a name of so many digits


def misdescribed(item: Metric) -> str:
    """Return what is wrong with how *item* describes itself, in a clause; "" if nothing is: a tuple takes whatever it is given.

    >>> misdescribed(Metric("late", abs, "how late", unit=5))
    'its unit is no text'
    """
    needs = item.needs if isinstance(item.needs, tuple) else (item.needs,)
    unknown = [str(need) for need in needs if str(need) not in NEEDS or needs is not item.needs]
    found = {
        **{f"its {name} is no text": not isinstance(getattr(item, name), str) for name in ("name", "summary", "unit", "paper")},
        "its function cannot be called": not callable(item.function),
        f"its needs are no tuple of known ones: {', '.join(unknown)}": unknown,
        f"its tier is none of {', '.join(get_args(Tier))}": item.tier not in get_args(Tier),
        "its higher_is_better is not True, False or None": not isinstance(item.higher_is_better, bool | None),
        "its is_of_group is not True or False": not isinstance(item.is_of_group, bool),
        f"its version is no whole number from 1 to {HIGHEST}": type(item.version) is not int
        or not 1 <= item.version <= HIGHEST,
    }
    return next((clause for clause, is_wrong in found.items() if is_wrong), "")
