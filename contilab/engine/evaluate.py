"""Evaluation of one member on all tasks: predictions, their confidences and accuracies. Draws no random number.

Every member is evaluated alone, in batches of one size, whatever execution trains it: the bits are those of a single run.

Shapes: N test samples of all tasks, concatenated; C head rows; T tasks.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from contilab.data.contract import Stream
from contilab.engine.masks import evaluation_mask, select
from contilab.spec.sections import Benchmark
from contilab.strategies.contract import MASKED

BATCH = 1024  # samples per forward pass; chosen: larger ones are no faster on a CPU

Row = list[float | None]
Judge = Callable[[Tensor], Tensor]  # inputs [B, *shape] -> scores [B, C], the highest is the prediction; see `judge`


class Exam(NamedTuple):
    """The samples of one part of all tasks: their indices into *inputs*, head rows, and how many each task has."""

    inputs: Tensor  # the whole pool
    samples: Tensor  # [N] int64
    target: Tensor  # [N] int64
    sizes: list[int]


class Marks(NamedTuple):
    """What one member did in one exam. Accuracies by task; None where there is no measurement."""

    accuracy: Row
    all_rows: Row
    task_aware: Row
    prediction: Tensor  # [N] int16, -1 where not measured
    confidence: Tensor  # [N] float32, 0 where not measured
    prediction_all_rows: Tensor  # [N] int16
    is_finite: bool  # all logits are; otherwise nothing else is to be believed


def test_exam(stream: Stream) -> Exam:
    """Return the exam on the test samples of all tasks."""
    samples = torch.cat([task.test for task in stream.tasks])
    return Exam(stream.test_inputs, samples, stream.test_rows[samples], [len(task.test) for task in stream.tasks])


def validation_exam(stream: Stream) -> Exam:
    """Return the exam on the validation samples of all tasks, which lie in the training pool."""
    samples = torch.cat([task.validation for task in stream.tasks])
    return Exam(stream.train_inputs, samples, stream.train_rows[samples], [len(task.validation) for task in stream.tasks])


def not_at_all() -> None:
    """Look at nothing between two batches."""


def evaluate(
    judge: Judge,
    exam: Exam,
    benchmark: Benchmark,
    rows: tuple[tuple[int, ...], ...],
    *,
    last: int,
    look: Callable[[], None] = not_at_all,
) -> Marks:
    """Return the marks that *judge* gets in *exam* once task *last* is the latest one learned (-1: the untrained model).

    Of equal scores the lowest row is predicted. *look* is called before each batch; what it raises ends the exam.
    """
    logits = scores_of(judge, exam, look)
    head_rows = logits.shape[1]
    prediction = torch.full((len(logits),), -1, dtype=torch.int16, device=logits.device)
    confidence = torch.zeros(len(logits), dtype=torch.float32, device=logits.device)
    accuracy: Row = []
    aware: Row = []
    for task, (part, target, first) in enumerate(_by_task(logits, exam)):
        aware.append(_accuracy(_allowed(part, select(rows[task], head_rows)).argmax(-1), target))
        mask = evaluation_mask(benchmark, rows, head_rows, task=task, last=last)
        if mask is None:
            accuracy.append(None)
            continue
        allowed = _allowed(part, mask)
        chosen = allowed.argmax(-1)  # of equal values torch takes the first, and says so
        accuracy.append(_accuracy(chosen, target))
        prediction[first : first + len(part)] = chosen.to(torch.int16)
        confidence[first : first + len(part)] = allowed.softmax(-1).max(-1)[0]
    anything = logits.argmax(-1)
    everywhere = zip(torch.split(anything, exam.sizes), torch.split(exam.target, exam.sizes), strict=True)
    return Marks(
        accuracy=accuracy,
        all_rows=[_accuracy(chosen, target) for chosen, target in everywhere],
        task_aware=aware,
        prediction=prediction.cpu(),
        confidence=confidence.cpu(),
        prediction_all_rows=anything.to(torch.int16).cpu(),
        is_finite=not bool(logits.isnan().any() | logits.isposinf().any()),
    )


def scores_of(judge: Judge, exam: Exam, look: Callable[[], None] = not_at_all) -> Tensor:
    """Return the scores [N, C] of one member."""
    logits = []
    with torch.no_grad():
        for part in torch.split(exam.samples, BATCH):
            look()
            logits.append(judge(exam.inputs[part]))
    return torch.cat(logits)


def _by_task(logits: Tensor, exam: Exam) -> list[tuple[Tensor, Tensor, int]]:
    firsts = [sum(exam.sizes[:task]) for task in range(len(exam.sizes))]
    return list(zip(torch.split(logits, exam.sizes), torch.split(exam.target, exam.sizes), firsts, strict=True))


def _allowed(logits: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask.to(logits.device), logits, MASKED)


def _accuracy(prediction: Tensor, target: Tensor) -> float | None:
    if len(target) == 0:
        return None
    return int((prediction == target).sum()) / len(target)
