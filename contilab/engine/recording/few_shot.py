"""How fast an earlier task comes back: its accuracy after few steps on its training data, from a copy of the final model.

The steps are plain: cross entropy of the task's samples under their training mask, by the optimiser, rate, clipping and batch
of the run, begun anew. What a method adds (replay, penalties, projections, teachers) is left out, as are augmentation and low
precision: asked is what the parameters still hold. Which samples come in which order is drawn for this alone, so nothing that
training draws moves.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from contilab.engine import streams
from contilab.engine.draws import Draw
from contilab.engine.ensemble import MemberState
from contilab.engine.evaluate import Exam, evaluate
from contilab.engine.executions.loop import loop
from contilab.engine.judge import judge_of
from contilab.engine.memory.entries import Entries
from contilab.engine.pools import carrying
from contilab.engine.schedule import Schedule
from contilab.engine.setup import Setup, resting
from contilab.strategies.contract import Batch, Strategy, cross_entropy, weighted_mean

STEPS = 10  # chosen

Look = Callable[[], None]


def _loss(_state: Any, batches: Mapping[str, Batch]) -> Tensor:
    current = batches["current"]
    return weighted_mean(cross_entropy(current), current.weight)


PLAIN = Strategy(init=lambda _params, _member: (), loss=_loss)


def relearned(setup: Setup, member: MemberState, seed: int, *, task: int, steps: int, look: Look) -> tuple[MemberState, int]:
    """Return what *member* is after *steps* on the training data of *task*, and how many samples it saw.

    *member* begins with the optimiser it has, and stays as it is. *look* is called before each step.
    """
    samples = setup.stream.tasks[task].train.cpu().numpy()
    schedule = Schedule(len(samples), setup.stages[-1].schedule.batch, steps)
    execution, lesson = carrying(loop)(setup.learner._replace(strategy=PLAIN)), setup.lesson(setup.stages[-1])
    copies = execution.gather([member._replace(strategy=(), stored=member.stored[:0])])
    step = seen = 0
    while step < steps:
        look()
        chunk = schedule.chunk(step, 1)
        order = streams.permutation(seed, streams.FEW_SHOT, task=task, index=chunk.epoch, count=len(samples))
        current = samples[order[chunk.offset : chunk.offset + chunk.batch]]
        draw = Draw(torch.from_numpy(current).to(setup.device)[None, None], {})
        copies, _ = execution.train(copies, lesson, draw)
        step, seen = step + 1, seen + chunk.batch
    return execution.scatter(copies)[0], seen


def accuracy_on(setup: Setup, member: MemberState, entries: Entries, *, task: int, look: Look) -> tuple[float, int]:
    """Return the accuracy on *task* as its exam at the end would find it, nan if scores are not finite, and its passes."""
    test = setup.stream.tasks[task].test
    sizes = [len(test) if one == task else 0 for one in range(len(setup.rows))]
    exam = Exam(setup.stream.test_inputs, test, setup.stream.test_rows[test], sizes)
    judge = judge_of(resting(setup, member), member.params, entries, look)
    marks = evaluate(judge, exam, setup.shared.benchmark, setup.rows, last=len(setup.rows) - 1, look=look)
    accuracy = marks.accuracy[task]
    means = 0 if setup.learner.strategy.head == "linear" else len(entries.held)
    return torch.nan if accuracy is None or not marks.is_finite else accuracy, len(test) + means
