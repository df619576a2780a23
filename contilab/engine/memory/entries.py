"""What the memory of one member holds: indices into the training pool, never copies of samples.

Entries fill the slots from 0 on without holes, whatever the policy. The counter of offers is kept apart from the occupancy: a
reservoir that forgot it would favour later samples.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Entries(NamedTuple):
    """The memory of one member: M slots, C head rows. Of an ensemble with [E] in front."""

    samples: Integers  # [M + 1], the sample in each slot; what a free slot and the bin (slot M) show is a sample of weight 0
    number: Integers  # [M + 1], when it was offered, counted from 1; 0 for a free slot
    offered: Integers  # [C], samples offered so far, by head row
    replayed: Integers  # [], samples of batches that came from memory so far

    @property
    def held(self) -> Integers:
        """The samples in occupied slots, in the order of the slots."""
        samples: Integers = self.samples[:-1][self.number[:-1] > 0]
        return samples


def no_entries(capacity: int, rows: int, *, filler: int) -> Entries:
    """Return a memory without entries; *filler* is the sample that padding of weight 0 shows."""
    return Entries(
        samples=np.full(capacity + 1, filler, dtype=np.int64),
        number=np.zeros(capacity + 1, dtype=np.int64),
        offered=np.zeros(rows, dtype=np.int64),
        replayed=np.zeros((), dtype=np.int64),
    )
