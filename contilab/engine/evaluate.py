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
from contilab.engine.pools import gathered
from contilab.spec.sections import Benchmark
from contilab.strategies.contract import MASKED

BATCH = 1024  # samples per forward pass; chosen: larger ones are no faster on a CPU

NOTHING = -1  # the prediction where none can be made

Row = list[float | None]


class Judge(NamedTuple):
    """What answers, see `judge`. Of the rows that are allowed and known, the one with the highest score is predicted.

    *known*: the rows that can be predicted; None if scores are logits, of which all can be and which are probabilities.
    """

    score: Callable[[Tensor], Tensor]  # inputs [B, *shape] -> scores [B, C]
    known: Tensor | None = None  # [C] bool


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
    prediction: Tensor  # [N] int16, -1 where not measured, or where no allowed row can be predicted
    confidence: Tensor  # [N] float32, 0 where not measured, nan of a judge that gives no probabilities
    prediction_all_rows: Tensor  # [N] int16
    is_finite: bool  # all scores are; otherwise nothing else is to be believed


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

    Of equal scores the lowest row is predicted. A judge that does not know all rows cannot be measured on tasks that are not
    learned. *look* is called before each batch; what it raises ends the exam.
    """
    scores = scores_of(judge, exam, look)
    head_rows = scores.shape[1]
    known = torch.ones(head_rows, dtype=torch.bool) if judge.known is None else judge.known.cpu()
    prediction = torch.full((len(scores),), NOTHING, dtype=torch.int16, device=scores.device)
    confidence = torch.zeros(len(scores), dtype=torch.float32, device=scores.device)
    accuracy: Row = []
    aware: Row = []
    for task, (part, target, first) in enumerate(_by_task(scores, exam)):
        is_measured = judge.known is None or task <= last
        aware.append(_accuracy(_chosen(part, select(rows[task], head_rows) & known), target) if is_measured else None)
        mask = evaluation_mask(benchmark, rows, head_rows, task=task, last=last)
        if mask is None or not is_measured:
            accuracy.append(None)
            continue
        chosen = _chosen(part, mask & known)
        accuracy.append(_accuracy(chosen, target))
        prediction[first : first + len(part)] = chosen.to(torch.int16)
        confidence[first : first + len(part)] = _confidence(judge, part, mask)
    anything = _chosen(scores, known)
    everywhere = zip(torch.split(anything, exam.sizes), torch.split(exam.target, exam.sizes), strict=True)
    return Marks(
        accuracy=accuracy,
        all_rows=[_accuracy(chosen, target) for chosen, target in everywhere],
        task_aware=aware,
        prediction=prediction.cpu(),
        confidence=confidence.cpu(),
        prediction_all_rows=anything.to(torch.int16).cpu(),
        is_finite=bool(scores.isfinite().all()),
    )


def scores_of(judge: Judge, exam: Exam, look: Callable[[], None] = not_at_all) -> Tensor:
    """Return the scores [N, C] of one member."""
    scores = []
    with torch.no_grad():
        for part in torch.split(exam.samples, BATCH):
            look()
            scores.append(judge.score(gathered(exam.inputs, part)))
    return torch.cat(scores)


def _by_task(scores: Tensor, exam: Exam) -> list[tuple[Tensor, Tensor, int]]:
    firsts = [sum(exam.sizes[:task]) for task in range(len(exam.sizes))]
    return list(zip(torch.split(scores, exam.sizes), torch.split(exam.target, exam.sizes), firsts, strict=True))


def _allowed(scores: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask.to(scores.device), scores, MASKED)


def _chosen(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the row [N] of *mask* [C] with the highest score, NOTHING if the mask is empty."""
    if not bool(mask.any()):
        return torch.full((len(scores),), NOTHING, device=scores.device)
    return _allowed(scores, mask).argmax(-1)  # of equal values torch takes the first, and says so


def _confidence(judge: Judge, scores: Tensor, mask: Tensor) -> Tensor:
    """Return the probability [N] of the most probable row, nan where scores are no logits."""
    if judge.known is not None:
        return torch.full((len(scores),), torch.nan, device=scores.device)
    return _allowed(scores, mask).softmax(-1).max(-1)[0]


def _accuracy(prediction: Tensor, target: Tensor) -> float | None:
    if len(target) == 0:
        return None
    return int((prediction == target).sum()) / len(target)
