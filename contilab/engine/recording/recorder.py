"""Evaluates the stream of all members at the moments of the schedule, between two chunks of steps.

It draws nothing and writes nothing that training reads, so a run has the same bits with and without it.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from torch import Tensor

from contilab.engine.costs import Stopwatch
from contilab.engine.draws import Stage
from contilab.engine.ensemble import MemberState
from contilab.engine.memory.entries import Entries
from contilab.engine.recording.log import StreamLog
from contilab.engine.recording.moments import PACES, moments
from contilab.engine.recording.subset import Sitting, evaluations, exam_until, subset
from contilab.engine.setup import Setup

HAS_STREAM = ("tasks", "cumulative", "exemplars")  # the stages of methods that train on one task after the other


class Recorder:
    """Fills the *logs* of all members; without `eval.tier` extended, or without a stream to train on, it does nothing."""

    def __init__(self, setup: Setup, logs: Sequence[StreamLog], clock: Stopwatch) -> None:
        self._setup, self._logs, self._clock = setup, logs, clock
        self._is_on = records_stream(setup)

    def until_next(self, stage: Stage, step: int, most: int) -> int:
        """Return how many steps may be trained from *step* on until the next evaluation, *most* at most."""
        if not self._is_on:
            return most
        return min(most, next((moment - step for moment in self._moments(stage) if moment > step), most))

    def note(
        self,
        stage: Stage,
        step: int,
        members: Callable[[], Sequence[MemberState]],
        entries: Callable[[], Sequence[Entries]],
        look: Callable[[], None],
    ) -> None:
        """Evaluate *members* after *step* steps of *stage* if that is a moment of the schedule, and was not done before.

        *entries*: what their memories hold by then. *look* is called before each pass through the model; if it raises, nothing
        is noted.
        """
        if not self._is_on or step not in self._moments(stage) or self._logs[0].holds(stage.task, step):
            return
        with self._clock.records():
            exam = exam_until(self._setup.stream, self._samples, stage.task)
            sitting = Sitting(members(), entries(), look)
            found = evaluations(self._setup, exam, sitting, task=stage.task, step=step)
            for log, evaluation, own in zip(self._logs, found, sitting.entries, strict=True):
                means = 0 if self._setup.learner.strategy.head == "linear" else len(own.held)
                log.note(evaluation, len(exam.samples) + means)

    @cached_property
    def _samples(self) -> list[Tensor]:
        return subset(self._setup.stream, self._setup.shared.eval.stream_samples)

    def _moments(self, stage: Stage) -> tuple[int, ...]:
        return moments(self._setup.shared.eval.schedule, stage.schedule.steps)


def records_stream(setup: Setup) -> bool:
    """Tell whether runs of *setup* have an evaluation stream."""
    return setup.shared.eval.tier != "core" and setup.learner.strategy.stages in HAS_STREAM


def stream_notes(setup: Setup) -> dict[str, Any]:
    """Return the schedule of the stream as the record holds it."""
    if not records_stream(setup):
        return {}
    name = setup.shared.eval.schedule
    dense, growth = PACES[name]
    samples = [min(setup.shared.eval.stream_samples, len(task.test)) for task in setup.stream.tasks]
    return {"stream": {"schedule": name, "dense_steps": dense, "growth": growth, "samples": samples}}
