"""The replay memories of the members of a group, on the host.

Which samples are offered follows from the order of the data, and which slot each takes from chance and labels; neither needs
the device. So what memory holds before each step of a chunk is worked out at once, and the device gets indices of samples.

Shapes: E members, S steps of a chunk, B samples per step, R samples per draw, M slots, C head rows, N samples of the pool.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from contilab.engine.memory.class_balanced import class_balanced
from contilab.engine.memory.entries import Entries, Floats, Integers
from contilab.engine.memory.offer import Held, Offer, later_wins
from contilab.engine.memory.plan import MemoryPlan
from contilab.engine.memory.replay import Flags
from contilab.engine.memory.reservoir import reservoir
from contilab.engine.memory.ring import ring_by_class, ring_by_task

PLACES = {"reservoir": reservoir, "class_balanced": class_balanced, "ring_class": ring_by_class}  # ring needs the tasks


class Pool(NamedTuple):
    """What memory knows of every sample of the training pool."""

    rows: Integers  # [N]
    tasks: Integers  # [N]


class Memories:
    """The memories of the members of a group, which take in samples and show them again."""

    def __init__(self, plan: MemoryPlan, pool: Pool, entries: Sequence[Entries]) -> None:
        self.plan, self.pool = plan, pool
        stacked = (np.stack(own) for own in zip(*entries, strict=True))  # copies: what is kept of others must stand still
        self.samples, self.number, self.offered, self.replayed = stacked
        self._members = np.arange(len(entries))[:, None]
        self._place = partial(ring_by_task, tasks=plan.tasks) if plan.policy == "ring" else PLACES.get(plan.policy)

    def entries(self) -> list[Entries]:
        """Return copies of what each member holds."""
        parts = zip(self.samples, self.number, self.offered, self.replayed, strict=True)
        return [Entries(*(np.array(part) for part in own)) for own in parts]

    def copy(self) -> "Memories":
        """Return a memory that holds the same and goes its own way."""
        return Memories(self.plan, self.pool, self.entries())

    @property
    def occupied(self) -> Integers:
        """How many entries each member holds, [E]."""
        count: Integers = (self.number[:, :-1] > 0).sum(-1)
        return count

    @property
    def tasks(self) -> Integers:
        """The task of each entry [E, M]; of free slots that of the filler."""
        tasks: Integers = self.pool.tasks[self.samples[:, :-1]]
        return tasks

    def slots_for(self, samples: Integers, uniform: Floats) -> Integers:
        """Return the slot [E, S, B] that each of *samples* takes, or the bin M; nothing is taken in yet.

        *uniform*: one number in [0, 1) for each sample.
        """
        assert self._place is not None, "herding takes in what it chose itself"  # noqa: S101 - a fault of ours
        is_free = self.number[:, :-1] == 0
        rows = np.where(is_free, -1, self.pool.rows[self.samples[:, :-1]])
        held = Held(rows, np.where(is_free, -1, self.tasks), self.number[:, :-1], self.offered)
        offer = Offer(self.pool.rows[samples], self.pool.tasks[samples], uniform)
        return later_wins(self._place(held, offer, self.plan.capacity), self.plan.capacity)

    def occupied_before(self, slots: Integers) -> Integers:
        """Return how many entries each member holds before each step [E, S], of which the samples take *slots* [E, S, B]."""
        within = np.where(slots < self.plan.capacity, slots + 1, 0).max(-1)
        after = np.maximum(np.maximum.accumulate(within, axis=1), self.occupied[:, None])
        return np.concatenate([self.occupied[:, None], after[:, :-1]], axis=1)

    def samples_in(self, slots: Integers) -> Integers:
        """Return the samples that lie in *slots* [E, ...]."""
        found: Integers = self.samples[self._members.reshape(-1, *[1] * (slots.ndim - 1)), slots]
        return found

    def numbers(self, steps: int, batch: int) -> Integers:
        """Return when each of the samples of the next steps is offered, [E, S, B], counted from 1."""
        first: Integers = self.offered.sum(-1)[:, None, None] + 1
        return first + np.arange(steps * batch).reshape(steps, batch)

    def write(self, slots: Integers, samples: Integers, numbers: Integers) -> None:
        """Put *samples* into *slots*, [E, B] each."""
        self.samples[self._members, slots] = samples
        self.number[self._members, slots] = numbers

    def count_offered(self, samples: Integers) -> None:
        """Count *samples* [E, ...] as offered."""
        rows = self.pool.rows[samples.reshape(len(samples), -1)]
        self.offered += np.stack([np.bincount(own, minlength=self.offered.shape[1]) for own in rows])

    def take_in(self, samples: Integers, uniform: Floats) -> None:
        """Offer *samples* [E, B] all at once, with one number in [0, 1) each."""
        slots = self.slots_for(samples[:, None], uniform[:, None])[:, 0]
        self.write(slots, samples, self.numbers(1, samples.shape[1])[:, 0])
        self.count_offered(samples)

    def count_replayed(self, counts: Flags) -> None:
        """Count the samples of a draw [E, ...] that come from memory."""
        self.replayed += counts.reshape(len(counts), -1).sum(-1)

    def replace(self, member: int, samples: Sequence[int]) -> None:
        """Let *member* hold *samples*, in this order, and nothing else."""
        count = len(samples)
        self.samples[member, :count] = samples
        self.number[member] = np.where(np.arange(self.plan.capacity + 1) < count, np.arange(self.plan.capacity + 1) + 1, 0)
