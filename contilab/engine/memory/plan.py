"""What a group asks of its replay memory."""

from typing import NamedTuple

from contilab.strategies.contract import Reference


class MemoryPlan(NamedTuple):
    """A replay memory of *capacity* slots, from which each of the draws *names* takes *batch* samples per step.

    *tasks* and *rows*: how many there are, which decides the quota of a ring. *reference*: what gradients are wanted on it.
    """

    capacity: int
    batch: int
    names: tuple[str, ...]
    insert: str = "first_epoch"
    policy: str = "reservoir"
    tasks: int = 1
    rows: int = 1
    reference: Reference | None = None
    keeps_logits: bool = False

    @property
    def replayed(self) -> int:
        """Samples per draw: never more than there are slots, so that a memory of no slots is exactly no replay."""
        return min(self.batch, self.capacity)

    def keeps(self, epoch: int) -> bool:
        """Tell whether the steps of *epoch* offer their samples."""
        return self.capacity > 0 and (self.insert == "every_epoch" or (self.insert == "first_epoch" and epoch == 0))
