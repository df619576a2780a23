"""How the steps of one stage follow each other: epochs, batches, and how many samples memory was offered before a step.

A step is identified by its number within the stage; everything here is a function of that number, so training can begin at any
step. With `train.steps` epochs repeat until the steps are reached; the last batch of an epoch may be smaller.
"""

from dataclasses import dataclass
from typing import NamedTuple

BLOCK = 64  # steps whose random numbers are drawn together; chosen: one draw then costs each step less than 10 microseconds


@dataclass(frozen=True)
class Chunk:
    """Consecutive steps of one epoch and one block, with batches of one size."""

    first: int  # step
    count: int  # steps
    epoch: int
    offset: int  # of the first batch within the epoch, in samples
    batch: int  # samples per step


class Schedule(NamedTuple):
    """One stage: *samples* to learn in batches of *batch*, for *steps* steps."""

    samples: int
    batch: int
    steps: int

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches of one pass over the samples."""
        return -(-self.samples // self.batch)

    def chunk(self, first: int, limit: int) -> Chunk:
        """Return the chunk that begins with step *first*, of at most *limit* steps."""
        epoch, position = divmod(first, self.steps_per_epoch)
        offset = position * self.batch
        whole = self.samples // self.batch - position  # batches of full size left in this epoch
        if whole == 0:
            return Chunk(first, 1, epoch, offset, self.samples - offset)
        return Chunk(first, min(whole, self.steps - first, BLOCK - first % BLOCK, limit), epoch, offset, self.batch)

    def offered(self, step: int, *, every_epoch: bool) -> int:
        """Return how many samples of this stage were offered to memory before *step*."""
        if self.samples == 0:
            return 0
        epoch, position = divmod(step, self.steps_per_epoch)
        within = position * self.batch
        if every_epoch:
            return epoch * self.samples + within
        return within if epoch == 0 else self.samples
