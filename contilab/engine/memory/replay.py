"""Which entries are drawn from memory.

Shapes: E members, S steps, R samples per draw, M slots, K earlier tasks.
"""

import numpy as np
from numpy.typing import NDArray

from contilab.engine.memory.entries import Floats, Integers
from contilab.engine.streams import below

Flags = NDArray[np.bool_]


def replay_slots(uniform: Floats, occupied: Integers) -> tuple[Integers, Flags]:
    """Return slots [E, S, R] drawn without replacement from the first *occupied* [E, S] ones, and which of them count.

    uniform: [E, S, R] in [0, 1). Floyd's algorithm: R numbers give R distinct slots. Where fewer than R entries exist, all of
    them are drawn and the rest is padding.
    """
    wanted = uniform.shape[-1]
    chosen = np.zeros(uniform.shape, dtype=np.int64)
    pool = np.maximum(occupied, wanted)
    for place in range(wanted):
        last = pool - wanted + place
        drawn = below(uniform[..., place], last + 1)
        taken = (chosen[..., :place] == drawn[..., None]).any(-1)
        chosen[..., place] = np.where(taken, last, drawn)
    places = np.arange(wanted)
    counts = places < occupied[..., None]
    everything = np.where(counts, places, 0)
    return np.where((occupied < wanted)[..., None], everything, chosen), counts


def reference_slots(uniform: Floats, eligible: Flags, wanted: int) -> tuple[Integers, Flags]:
    """Return *wanted* slots [E, S, R] drawn without replacement from the *eligible* [E, S, M] ones, and which of them count.

    uniform: [E, S, M]: the eligible slots with the smallest numbers are drawn. Where there are fewer, all are.
    """
    keys = np.where(eligible, uniform, 2.0)
    width = min(wanted, keys.shape[-1])
    smallest = np.argpartition(keys, width - 1, axis=-1)[..., :width]
    return smallest, np.take_along_axis(eligible, smallest, -1)


def task_slots(tasks: Integers, number: Integers, earlier: int, quota: int) -> tuple[Integers, Flags]:
    """Return the slots [E, K, Q] of all entries of each of *earlier* tasks, padded to *quota* (Q), and which of them count.

    tasks, number: [E, M], of the entries.
    """
    slots = np.zeros((len(tasks), earlier, quota), dtype=np.int64)
    counts = np.zeros(slots.shape, dtype=np.bool_)
    for member, (own, when) in enumerate(zip(tasks, number, strict=True)):
        for task in range(earlier):
            found = np.flatnonzero((own == task) & (when > 0))[:quota]
            slots[member, task, : len(found)] = found
            counts[member, task, : len(found)] = True
    return slots, counts
