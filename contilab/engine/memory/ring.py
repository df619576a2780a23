"""Ring buffers: the last samples of each task, or of each class, first in first out. Source: Lopez-Paz & Ranzato 2017.

Each key has a quota of floor(M / number of keys) entries. Slots are not bound to keys: a new entry takes the next free slot, so
that entries fill the slots from 0 on.
"""

from collections import deque

import numpy as np

from contilab.engine.memory.entries import Integers
from contilab.engine.memory.offer import Held, Offer


def ring_by_task(held: Held, offer: Offer, capacity: int, *, tasks: int) -> Integers:
    """Return the slot [E, S, B] of each sample; each of *tasks* tasks keeps its last floor(M / T) samples."""
    return _ring(held, held.tasks, offer.tasks, capacity, keys=tasks)


def ring_by_class(held: Held, offer: Offer, capacity: int) -> Integers:
    """Return the slot [E, S, B] of each sample; each of C head rows keeps its last floor(M / C) samples.

    Two classes share two slots, and the second sample of class 0 replaces the first:

    >>> held = Held(*[np.full((1, 2), -1)] * 2, np.zeros((1, 2), int), np.zeros((1, 2), int))
    >>> offer = Offer(np.array([[[0, 0, 1]]]), np.zeros((1, 1, 3), int), np.zeros((1, 1, 3)))
    >>> ring_by_class(held, offer, 2)
    array([[[0, 0, 1]]])
    """
    return _ring(held, held.rows, offer.rows, capacity, keys=held.offered.shape[1])


def _ring(held: Held, held_keys: Integers, new_keys: Integers, capacity: int, *, keys: int) -> Integers:
    quota = capacity // keys
    slots = np.full(new_keys.shape, capacity, dtype=np.int64)
    if quota == 0:
        return slots
    for member, (own, number) in enumerate(zip(held_keys, held.number, strict=True)):
        rings = [deque(_oldest_first(own, number, key)) for key in range(keys)]
        filled = int((number > 0).sum())
        flat = slots[member].reshape(-1)
        for place, key in enumerate(new_keys[member].flat):
            line = rings[key]
            if len(line) < quota:
                line.append(filled)
                filled += 1
            else:
                line.rotate(-1)
            flat[place] = line[-1]
        slots[member] = flat.reshape(slots[member].shape)
    return slots


def _oldest_first(keys: Integers, number: Integers, key: int) -> list[int]:
    slots = np.flatnonzero((keys == key) & (number > 0))
    oldest_first: list[int] = slots[np.argsort(number[slots])].tolist()
    return oldest_first
