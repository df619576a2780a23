"""Looks into memory: what one draw finds in the memories of an ensemble before a step.

Shapes: E members, S steps, R samples per draw, M slots, K earlier tasks, Q entries of each.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from contilab.engine.memory.entries import Floats, Integers
from contilab.engine.memory.memories import Memories
from contilab.engine.memory.replay import Flags, reference_slots, task_slots


class Found(NamedTuple):
    """Slots, which of them count (the rest is padding), and the samples there: [E, R] or [E, K, Q], of S steps [E, S, ...]."""

    slots: Integers
    counts: Flags
    samples: Integers


Look = Callable[[int], Found]  # of the step, counted within the chunk


def replayed(memory: Memories, slots: Integers, counts: Flags) -> Look:
    """Return a look into *slots* [E, S, R], which were drawn before."""

    def look(step: int) -> Found:
        own = slots[:, step]
        return Found(own, counts[:, step], memory.samples_in(own))

    return look


def of_earlier_tasks(memory: Memories, uniform: Floats, *, task: int, wanted: int) -> Look:
    """Return a look at *wanted* entries of tasks before *task*, drawn by *uniform* [E, S, M]; at all if there are fewer."""

    def look(step: int) -> Found:
        eligible = (memory.number[:, :-1] > 0) & (memory.tasks < task)
        slots, counts = reference_slots(uniform[:, step], eligible, wanted)
        return Found(slots[:, None], counts[:, None], memory.samples_in(slots)[:, None])

    return look


def of_each_earlier_task(memory: Memories, *, task: int, is_still: bool) -> Look:
    """Return a look at all entries of each task before *task*; they stand still, as each task has a ring of its own.

    *is_still*: no sample of an earlier task is offered any more, as it may be where tasks mix.
    """
    if not is_still:
        return lambda _step: _of_each_earlier_task(memory, task)
    found = _of_each_earlier_task(memory, task)
    return lambda _step: found


def _of_each_earlier_task(memory: Memories, task: int) -> Found:
    slots, counts = task_slots(memory.tasks, memory.number[:, :-1], task, memory.plan.capacity // memory.plan.tasks)
    return Found(slots, counts, memory.samples_in(slots))


def look_through(looks: Sequence[Look], steps: int, after_step: Callable[[int], None]) -> list[Found]:
    """Return what each of *looks* finds before each of *steps*, [E, S, ...]; *after_step* lets memory go on."""
    found: list[list[Found]] = [[] for _ in looks]
    for step in range(steps):
        for own, look in zip(found, looks, strict=True):
            own.append(look(step))
        after_step(step)
    return [Found(*(np.stack(parts, 1) for parts in zip(*own, strict=True))) for own in found]
