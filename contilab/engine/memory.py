"""Replay memory: which slot a sample takes and which slots are replayed.

A member's memory is one tensor [M + 1] of sample indices; slot M is the bin for samples that are not kept, so insertion always
has the same shape. How many samples were offered before a step follows from the step alone, so the slots of many steps are
worked out at once on the host and a training step only gathers and scatters.

Shapes: E members, S steps, B samples per step, R replayed samples per step, M slots.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contilab.engine.streams import below

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def empty(capacity: int, *, filler: int, device: torch.device) -> Tensor:
    """Return a memory without entries; *filler* is the sample that padding of weight 0 shows."""
    return torch.full((capacity + 1,), filler, dtype=torch.int64, device=device)


def insert(memory: Tensor, slots: Tensor, index: Tensor) -> Tensor:
    """Return *memory* [M + 1] with the samples *index* [B] in *slots* [B], which are distinct but for the bin."""
    return memory.scatter(0, slots, index)


def reservoir_slots(uniform: Floats, offered: Integers, capacity: int) -> Integers:
    """Return the slot of each offered sample under reservoir sampling (Vitter 1985, algorithm R).

    uniform: [E, S, B] in [0, 1). offered: [S], samples offered before each step. The n-th sample offered (n from 1) takes slot
    n - 1 if n <= M, else a slot j uniform in 0..n-1 if j < M. Where two samples of one step draw the same slot, the later one
    wins: the earlier one goes to the bin (slot M), so the result does not depend on the order in which a device writes.
    """
    count = offered[:, None] + np.arange(1, uniform.shape[-1] + 1)
    slots = np.where(count <= capacity, count - 1, below(uniform, count))
    return _later_wins(np.minimum(slots, capacity), capacity)


def replay_slots(uniform: Floats, occupied: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """Return slots [E, S, R] drawn without replacement from the first *occupied* [S] ones, and which of them count [S, R].

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
    counts = places < occupied[:, None]
    everything = np.where(counts, places, 0)
    return np.where((occupied < wanted)[:, None], everything, chosen), counts


def _later_wins(slots: Integers, capacity: int) -> Integers:
    order = np.argsort(slots, axis=-1, kind="stable")
    ranked = np.take_along_axis(slots, order, -1)
    beaten = np.zeros(slots.shape, dtype=np.bool_)
    np.put_along_axis(beaten[..., :], order[..., :-1], ranked[..., :-1] == ranked[..., 1:], -1)
    return np.where(beaten, capacity, slots)
