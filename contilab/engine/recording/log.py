"""The evaluation stream of one member: how many samples of each task it got right, again and again while it was trained.

Hits are whole numbers, so a log survives a snapshot exactly. The tensors that metrics read are made of it at the end, see
`contilab.metrics.stream` and `contilab.metrics.learning_curve`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

CURVE = 10  # batches of a learning curve, as `lca_10` reads it
NOTHING = -1  # in place of hits: not measured

Arrays = dict[str, "np.ndarray[Any, Any]"]


class Evaluation(NamedTuple):
    """One evaluation after *step* steps of *task*: *hits* on tasks 0 to *task*; *own*: on *task* under its own mask."""

    task: int
    step: int
    hits: list[int]
    own: int


@dataclass
class StreamLog:
    """All evaluations of one member in the order of training, and how many *passes* of a sample through the model they took."""

    evaluations: list[Evaluation] = field(default_factory=list)
    passes: int = 0

    def holds(self, task: int, step: int) -> bool:
        """Tell whether the evaluation after *step* steps of *task* is there; they come in order."""
        return bool(self.evaluations) and (task, step) <= self.evaluations[-1][:2]

    def note(self, evaluation: Evaluation, passes: int) -> None:
        """Note the next *evaluation*."""
        self.evaluations.append(evaluation)
        self.passes += passes

    def facts(self) -> dict[str, Any]:
        """Return the log as plain values."""
        return {"evaluations": [list(one) for one in self.evaluations], "passes": self.passes}

    def tensors(self, sizes: Sequence[int], diverged: Mapping[str, int] | None) -> Arrays:
        """Return stream and learning curves; *sizes*: samples of each task. Nothing after the run *diverged* is told."""
        end = (diverged["task"], diverged["step"]) if diverged else (len(sizes), 0)
        told = [one for one in self.evaluations if one[:2] <= end]
        lines = list(_with_switches(told))
        accuracy = np.full((len(lines), len(sizes)), np.nan)
        for place, (one, _) in enumerate(lines):
            accuracy[place, : len(one.hits)] = [_share(*pair) for pair in zip(one.hits, sizes, strict=False)]
        return {
            "stream_accuracy": accuracy,
            "stream_task": np.array([one.task for one, _ in lines], dtype=np.int64),
            "stream_step": np.array([one.step for one, _ in lines], dtype=np.int64),
            "stream_old_mask": np.array([is_old for _, is_old in lines], dtype=np.bool_),
            "learning_curve": _curves(told, sizes),
        }


def log_from(facts: Mapping[str, Any]) -> StreamLog:
    """Return the log of which `StreamLog.facts` gave these."""
    return StreamLog([Evaluation(*one) for one in facts["evaluations"]], facts["passes"])


def _with_switches(told: Sequence[Evaluation]) -> Iterator[tuple[Evaluation, bool]]:
    """Yield each evaluation and whether it is under the mask of before the switch.

    Before a switch the model is that of the last step of the task before, and so are its hits under the old mask.
    """
    before: Evaluation | None = None
    for one in told:
        if before is not None and one.task > before.task:
            yield one._replace(hits=before.hits), True
        yield one, False
        before = one


def _curves(told: Sequence[Evaluation], sizes: Sequence[int]) -> "np.ndarray[Any, Any]":
    """Return the accuracy [T, CURVE + 1] on each task after 0 to CURVE of its own batches; no line if there is no stream."""
    curves = np.full((len(sizes) if told else 0, CURVE + 1), np.nan)
    for one in told:
        if one.step <= CURVE:
            curves[one.task, one.step] = _share(one.own, sizes[one.task])
    return curves


def _share(hits: int, of: int) -> float:
    return hits / of if of and hits != NOTHING else np.nan
