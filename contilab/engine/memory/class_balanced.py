"""Class-balanced memory: classes with enough samples hold equally many, within one.

Sources: Prabhu et al. 2020 (GDumb's greedy balance), Chrysakis & Moens 2020 (a reservoir within each class). A free slot is
filled. In a full memory a sample whose class is not one of the largest overwrites a random entry of the largest; otherwise it
replaces a random entry of its own class with probability stored / offered of that class.
"""

from bisect import insort

import numpy as np

from contilab.engine.memory.entries import Integers
from contilab.engine.memory.offer import Held, Offer


def class_balanced(held: Held, offer: Offer, capacity: int) -> Integers:
    """Return the slot [E, S, B] of each sample; *capacity*, the bin, for those that are not kept.

    A memory full of class 0 gives one of its entries to the first sample of class 1:

    >>> held = Held(np.array([[0, 0]]), np.zeros((1, 2), int), np.array([[1, 2]]), np.array([[2, 0]]))
    >>> offer = Offer(np.array([[[1]]]), np.zeros((1, 1, 1), int), np.array([[[0.6]]]))
    >>> class_balanced(held, offer, 2)
    array([[[1]]])
    """
    slots = np.empty(offer.rows.shape, dtype=np.int64)
    for member, (rows, offered) in enumerate(zip(held.rows, held.offered, strict=True)):
        own = _Balance(rows, offered, capacity)
        pairs = zip(offer.rows[member].flat, offer.uniform[member].flat, strict=True)
        slots[member].flat = [own.slot_of(int(row), float(uniform)) for row, uniform in pairs]
    return slots


class _Balance:
    """The slots of each class in one memory, in order, so that nothing depends on where a chunk of steps began."""

    def __init__(self, rows: Integers, offered: Integers, capacity: int) -> None:
        self.capacity = capacity
        self.offered = offered.tolist()
        self.slots: list[list[int]] = [np.flatnonzero(rows == row).tolist() for row in range(len(offered))]
        self.filled = sum(len(slots) for slots in self.slots)

    def slot_of(self, row: int, uniform: float) -> int:
        self.offered[row] += 1
        own = self.slots[row]
        if self.filled < self.capacity:
            own.append(self.filled)  # the highest of all
            self.filled += 1
            return self.filled - 1
        largest = max(len(slots) for slots in self.slots)
        if len(own) < largest:
            return self._taken_over(own, largest, uniform)
        place = int(uniform * self.offered[row])  # one number decides both whether and which: stored / offered of them do
        return own[place] if place < len(own) else self.capacity

    def _taken_over(self, own: list[int], largest: int, uniform: float) -> int:
        rivals = [slots for slots in self.slots if len(slots) == largest]
        which, place = divmod(int(uniform * len(rivals) * largest), largest)
        slot = rivals[which].pop(place)
        insort(own, slot)
        return slot
