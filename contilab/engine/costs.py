"""What a run cost: counted where a count is exact, measured where it is time or memory."""

import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from contilab.engine.diary import Diary
from contilab.engine.draws import Stage
from contilab.engine.ensemble import MemberState, tree_bytes
from contilab.engine.setup import Setup, params_count
from contilab.hardware.peak import highest_bytes
from contilab.records.record import Cost

PASSES = 3  # forward, and a backward pass twice as long


class Stopwatch:
    """Wall time of a group, of it for recording (snapshots too), and the training speed of each stage.

    A group that is resumed goes on from what its clock showed: *before* and *recording* seconds, and the speeds.
    """

    def __init__(self, before: float = 0.0, recording: float = 0.0, steps_per_second: Sequence[float] = ()) -> None:
        self.begin = time.perf_counter() - before
        self.recording = recording
        self.steps_per_second = list(steps_per_second)

    @property
    def elapsed(self) -> float:
        """Seconds since the group began."""
        return time.perf_counter() - self.begin

    @contextmanager
    def records(self) -> Iterator[None]:
        """Count what happens inside as recording."""
        begin = time.perf_counter()
        yield
        self.recording += time.perf_counter() - begin


def cost(setup: Setup, member: MemberState, diary: Diary, clock: Stopwatch) -> Cost:
    """Return the cost of the run of *member*, of which *diary* tells what was done in each stage it reached."""
    done = list(zip(setup.stages, diary.steps, strict=False))
    learned = sum(stage.samples_until(count) for stage, count in done)
    replayed = diary.replayed[-1] if diary.replayed else 0
    has_entries = any(stage.has_entries for stage in setup.stages)  # then entries of memory are among what is learned
    trained = learned if has_entries else learned + replayed
    closed = [place for place, (stage, count) in enumerate(done) if stage.schedule.steps == count]
    passes = PASSES * trained + sum(_passes_beside(setup, *one, is_closed=place in closed) for place, one in enumerate(done))
    flops = setup.learner.model.flops
    params = params_count(member.params)
    per_entry = 8 + (entry_bytes(member) if setup.plan.keeps_logits else 0)
    return Cost(
        samples_new=max(0, trained - replayed),
        samples_replayed=replayed,
        train_steps=sum(diary.steps),
        flops=flops * passes,
        flops_evaluation=flops * (_exam_passes(setup, diary, closed) + diary.stream.passes + diary.measured_passes),
        seconds_group=clock.elapsed,
        seconds_recording=clock.recording,
        members=len(setup.runs),
        steps_per_second=list(clock.steps_per_second),
        params_trainable=params,
        params_total=params,
        peak_rss_bytes=_peak_rss_bytes(),
        peak_device_bytes=torch.cuda.max_memory_allocated(setup.device) if setup.device.type == "cuda" else 0,
        buffer_bytes=per_entry * (diary.held[-1] if diary.held else 0),
        buffer_sample_bytes=setup.plan.capacity * setup.stream.train_inputs[0].nbytes,
        state_bytes=tree_bytes((member.strategy, member.frozen)),
    )


def entry_bytes(member: MemberState) -> int:
    """Return how many bytes the logits of one entry of memory take."""
    return member.stored[0].numel() * member.stored.element_size()


def _passes_beside(setup: Setup, stage: Stage, steps: int, *, is_closed: bool) -> int:
    """Return how many forward passes of one sample *stage* takes beside those of its steps: teacher, importances, herding."""
    taught = stage.samples_until(steps) if setup.learner.strategy.teacher is not None and stage.task > 0 else 0
    if not is_closed:
        return taught
    herded = len(stage.new) if setup.plan.policy == "herding" and setup.plan.capacity > 0 else 0
    return taught + herded + _importance_passes(setup, stage)


def _means(setup: Setup, diary: Diary, closed: Sequence[int]) -> int:
    """Return how many forward passes the means of memory take in the exams after the stages *closed*."""
    return 0 if setup.learner.strategy.head == "linear" else sum(diary.held[place] for place in closed)


def _importance_passes(setup: Setup, stage: Stage) -> int:
    """Return how many forward passes of one sample the importances after *stage* are worth."""
    request = setup.learner.strategy.importance
    if request is None:
        return 0
    rows = setup.stream.head_rows
    values, _ = request.terms(torch.zeros(rows), torch.tensor(0), torch.ones(rows, dtype=torch.bool), torch.tensor(0.5))
    return min(request.samples, len(stage.samples)) * (1 + 2 * len(values))


def _exam_passes(setup: Setup, diary: Diary, closed: Sequence[int]) -> int:
    """Return how many forward passes of one sample the exams take: before training, and after each of the stages *closed*."""
    samples = sum(len(task.test) + len(task.validation) for task in setup.stream.tasks)
    return samples * (1 + len(closed)) + _means(setup, diary, closed)


def _peak_rss_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest_bytes(peak if sys.platform == "darwin" else peak * 1024)
