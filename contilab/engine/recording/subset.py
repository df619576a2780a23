"""The fixed test samples of the stream, and how many of them members get right.

Shapes: E members, N samples of the tasks begun, concatenated; C head rows; T tasks.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from contilab.data.contract import Stream
from contilab.engine.ensemble import MemberState, stack
from contilab.engine.evaluate import Exam, not_at_all, scores_of
from contilab.engine.judge import judge_of
from contilab.engine.masks import evaluation_mask
from contilab.engine.memory.entries import Entries
from contilab.engine.pools import gathered
from contilab.engine.recording.log import NOTHING, Evaluation
from contilab.engine.setup import Setup, resting
from contilab.strategies.contract import MASKED

TOGETHER = 8192  # samples of all members in one forward pass on a device; chosen


class Sitting(NamedTuple):
    """Who is evaluated: *members*, what the memory of each holds, and what is called before each pass through the model."""

    members: Sequence[MemberState]
    entries: Sequence[Entries]
    look: Callable[[], None] = not_at_all


def subset(stream: Stream, most: int) -> list[Tensor]:
    """Return up to *most* test samples of each task, evenly spaced in its own order: no random number is drawn for them."""
    return [spread(task.test, most) for task in stream.tasks]


def exam_until(stream: Stream, samples: Sequence[Tensor], task: int) -> Exam:
    """Return the exam on the *samples* of tasks 0 to *task*."""
    begun = samples[: task + 1]
    index = torch.cat(list(begun))
    return Exam(stream.test_inputs, index, stream.test_rows[index], [len(part) for part in begun])


def evaluations(setup: Setup, exam: Exam, sitting: Sitting, *, task: int, step: int) -> list[Evaluation]:
    """Return what each member gets right in *exam* after *step* steps of *task*; nothing if its scores are not finite."""
    now, own = (_masks(setup, exam, last, task).to(setup.device) for last in (task, -1))
    found = []
    for scores, known in _scored(setup, exam, sitting):
        allowed = (now, own) if known is None else (now & known, own & known)
        hits, alone = (_hits(scores, exam, mask) for mask in allowed)
        found.append(torch.cat([scores.isfinite().all()[None].long(), hits, alone[-1:]]))
    return [_evaluation(task, step, *line) for line in torch.stack(found).tolist()]  # one transfer from the device


def _evaluation(task: int, step: int, is_finite: int, *counts: int) -> Evaluation:
    hits = list(counts) if is_finite else [NOTHING] * len(counts)
    return Evaluation(task, step, hits[:-1], hits[-1])


def _scored(setup: Setup, exam: Exam, sitting: Sitting) -> list[tuple[Tensor, Tensor | None]]:
    """Return the scores [N, C] of each member, and which rows it knows (None: all).

    On a processor one member after the other: products of a thousand samples keep it busy, and the bits are those of a member
    alone. On a device all together where the model takes them so, since there calls cost more than arithmetic.
    """
    learner = setup.learner
    if setup.device.type != "cpu" and learner.model.takes_members and learner.strategy.head == "linear":
        return [(scores, None) for scores in scores_together(setup, exam, sitting)]
    parts, look = zip(sitting.members, sitting.entries, strict=True), sitting.look
    judges = [judge_of(resting(setup, member), member.params, entries, look) for member, entries in parts]
    return [(scores_of(judge, exam, look), None if judge.known is None else judge.known.to(setup.device)) for judge in judges]


def scores_together(setup: Setup, exam: Exam, sitting: Sitting) -> Tensor:
    """Return the scores [E, N, C] of all members in passes through the model with all of them."""
    params, count = stack([member.params for member in sitting.members]), len(sitting.members)
    found = []
    with torch.no_grad():
        for part in torch.split(exam.samples, max(1, TOGETHER // count)):
            sitting.look()
            x = gathered(exam.inputs, part)
            found.append(setup.learner.model.forward(params, {}, x.expand(count, *x.shape)).logits)
    return torch.cat(found, dim=1)


def _masks(setup: Setup, exam: Exam, last: int, task: int) -> Tensor:
    """Return the mask [N, C] of each sample once *last* is the latest task begun; -1: that of its own task."""
    head_rows, benchmark = setup.stream.head_rows, setup.shared.benchmark
    found = [evaluation_mask(benchmark, setup.rows, head_rows, task=one, last=last) for one in range(task + 1)]
    lines = torch.stack([torch.zeros(head_rows, dtype=torch.bool) if mask is None else mask for mask in found])
    return lines.repeat_interleave(torch.tensor(exam.sizes), dim=0)


def _hits(scores: Tensor, exam: Exam, mask: Tensor) -> Tensor:
    """Return how many samples of each task [T] are right under *mask* [N, C]; a row that is not allowed is never right."""
    chosen = torch.where(mask, scores, MASKED).argmax(-1)  # of equal values the first, as in exams
    right = (chosen == exam.target) & mask.gather(1, exam.target[:, None]).squeeze(1)
    return torch.stack([part.sum() for part in torch.split(right, exam.sizes)])


def spread(samples: Tensor, most: int) -> Tensor:
    """Return up to *most* of *samples*, evenly spaced."""
    count = min(most, len(samples))
    return samples[torch.arange(count, device=samples.device) * len(samples) // max(1, count)]
