"""What a run cost: counted where a count is exact, measured where it is time or memory."""

import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from contilab.engine.draws import Stage
from contilab.engine.ensemble import MemberState, tree_bytes
from contilab.engine.setup import Setup, params_count
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


def cost(setup: Setup, member: MemberState, steps: list[int], clock: Stopwatch) -> Cost:
    """Return the cost of the run of *member*, which was trained by *steps* steps in each stage it reached."""
    done = list(zip(setup.stages, steps, strict=False))
    new = sum(stage.samples_until(count) for stage, count in done)
    replayed = sum(_replayed(setup, stage, count) for stage, count in done)
    flops = setup.learner.model.flops
    params = params_count(member.params)
    entries = min(setup.plan.capacity, sum(_offered(setup, stage, count) for stage, count in done))
    return Cost(
        samples_new=new,
        samples_replayed=replayed,
        train_steps=sum(steps),
        flops=PASSES * flops * (new + replayed) + flops * sum(_importance_passes(setup, stage, count) for stage, count in done),
        flops_evaluation=flops * _samples_evaluated(setup) * (1 + sum(stage.schedule.steps == count for stage, count in done)),
        seconds_group=clock.elapsed,
        seconds_recording=clock.recording,
        members=len(setup.runs),
        steps_per_second=list(clock.steps_per_second),
        params_trainable=params,
        params_total=params,
        peak_rss_bytes=_peak_rss_bytes(),
        peak_device_bytes=torch.cuda.max_memory_allocated(setup.device) if setup.device.type == "cuda" else 0,
        buffer_bytes=8 * entries,
        buffer_sample_bytes=setup.plan.capacity * setup.stream.train_inputs[0].nbytes,
        state_bytes=tree_bytes(member.strategy),
    )


def _offered(setup: Setup, stage: Stage, steps: int) -> int:
    return stage.schedule.offered(steps, every_epoch=setup.plan.every_epoch)


def _replayed(setup: Setup, stage: Stage, steps: int) -> int:
    if not setup.plan.names or not setup.plan.replayed:
        return 0
    offered = (stage.offered + _offered(setup, stage, step) for step in range(steps))
    return len(setup.plan.names) * sum(min(setup.plan.replayed, before) for before in offered)


def _importance_passes(setup: Setup, stage: Stage, steps: int) -> int:
    """Return how many forward passes of one sample the importances after *stage* are worth."""
    request = setup.learner.strategy.importance
    if request is None or steps < stage.schedule.steps:
        return 0
    rows = setup.stream.head_rows
    values, _ = request.terms(torch.zeros(rows), torch.tensor(0), torch.ones(rows, dtype=torch.bool), torch.tensor(0.5))
    return min(request.samples, len(stage.samples)) * (1 + 2 * len(values))


def _samples_evaluated(setup: Setup) -> int:
    return sum(len(task.test) + len(task.validation) for task in setup.stream.tasks)


def _peak_rss_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
