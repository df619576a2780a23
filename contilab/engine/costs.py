"""What a run cost: counted where a count is exact, measured where it is time or memory."""

import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from contilab.engine.draws import Stage
from contilab.engine.ensemble import MemberState, tree_bytes
from contilab.engine.memory.entries import Entries
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


def cost(setup: Setup, member: MemberState, entries: Entries, steps: list[int], clock: Stopwatch) -> Cost:
    """Return the cost of the run of *member*, which was trained by *steps* steps in each stage it reached.

    *entries*: what its memory holds at the end.
    """
    done = list(zip(setup.stages, steps, strict=False))
    new = sum(stage.samples_until(count) for stage, count in done)
    replayed = int(entries.replayed)
    taught = sum(stage.samples_until(count) for stage, count in done[1:]) if setup.learner.strategy.teacher else 0
    flops = setup.learner.model.flops
    params = params_count(member.params)
    per_entry = 8 + (entry_bytes(member) if setup.plan.keeps_logits else 0)
    return Cost(
        samples_new=new,
        samples_replayed=replayed,
        train_steps=sum(steps),
        flops=flops * (PASSES * (new + replayed) + taught + sum(_importance_passes(setup, *one) for one in done)),
        flops_evaluation=flops * _samples_evaluated(setup) * (1 + sum(stage.schedule.steps == count for stage, count in done)),
        seconds_group=clock.elapsed,
        seconds_recording=clock.recording,
        members=len(setup.runs),
        steps_per_second=list(clock.steps_per_second),
        params_trainable=params,
        params_total=params,
        peak_rss_bytes=_peak_rss_bytes(),
        peak_device_bytes=torch.cuda.max_memory_allocated(setup.device) if setup.device.type == "cuda" else 0,
        buffer_bytes=per_entry * int((entries.number[:-1] > 0).sum()),
        buffer_sample_bytes=setup.plan.capacity * setup.stream.train_inputs[0].nbytes,
        state_bytes=tree_bytes(member.strategy),
    )


def entry_bytes(member: MemberState) -> int:
    """Return how many bytes the logits of one entry of memory take."""
    return member.stored[0].numel() * member.stored.element_size()


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
