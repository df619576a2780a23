"""What a policy is asked: the slot of each sample of some steps, given what memory holds before them.

Shapes: E members, S steps, B samples per step, M slots, C head rows.
"""

from typing import NamedTuple

import numpy as np

from contilab.engine.memory.entries import Floats, Integers


class Held(NamedTuple):
    """What the memories of an ensemble hold; -1 where a slot is free."""

    rows: Integers  # [E, M]
    tasks: Integers  # [E, M]
    number: Integers  # [E, M], when each entry was offered, from 1; 0 where free
    offered: Integers  # [E, C], samples offered so far


class Offer(NamedTuple):
    """Samples in the order in which they are offered, with one number in [0, 1) each."""

    rows: Integers  # [E, S, B]
    tasks: Integers  # [E, S, B]
    uniform: Floats  # [E, S, B]


def later_wins(slots: Integers, capacity: int) -> Integers:
    """Return *slots* [..., B] with all but the last of several samples for one slot in the bin, slot *capacity*.

    So the result does not depend on the order in which a device writes.
    """
    order = np.argsort(slots, axis=-1, kind="stable")
    ranked = np.take_along_axis(slots, order, -1)
    beaten = np.zeros(slots.shape, dtype=np.bool_)
    np.put_along_axis(beaten, order[..., :-1], ranked[..., :-1] == ranked[..., 1:], -1)
    return np.where(beaten, capacity, slots)
