"""What chance decides in a step, for all members: which samples are learned, replayed and kept.

Numbers are drawn per block of steps and per epoch on the host, and go to the device once per chunk. The caches only save time:
every draw is a function of the seed and of the step.

Shapes: E members, S steps of a chunk, B samples per step, R replayed samples, M slots.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contilab.engine import streams
from contilab.engine.memory import Integers, replay_slots, reservoir_slots
from contilab.engine.schedule import BLOCK, Chunk, Schedule


class Replay(NamedTuple):
    """One draw from memory; weight is 0 for padding."""

    slots: Tensor  # [R] int64
    weight: Tensor  # [R] float


class Draw(NamedTuple):
    """The draws of one step; of a chunk with [S, E] in front. *keep* is empty in steps that offer nothing to memory."""

    current: Tensor  # [B] int64, sample indices
    replay: dict[str, Replay]
    keep: tuple[Tensor, ...]  # one [B] int64, the slot that each sample takes; or none


def unbind(draws: Draw) -> list[Draw]:
    """Return the draws along the first axis: of a chunk its steps, of a step its members.

    Written out, because trees would cost each step of one member 0.05 ms, 3 % of the step of an MLP 2x400.
    """
    replays = {name: list(zip(*(leaf.unbind() for leaf in replay), strict=True)) for name, replay in draws.replay.items()}
    keeps = [slots.unbind() for slots in draws.keep]
    return [
        Draw(current, {name: Replay(*parts[place]) for name, parts in replays.items()}, tuple(keep[place] for keep in keeps))
        for place, current in enumerate(draws.current.unbind())
    ]


class MemoryPlan(NamedTuple):
    """A replay memory of *capacity* slots, from which each of the draws *names* takes *batch* samples per step."""

    capacity: int
    batch: int
    names: tuple[str, ...]
    every_epoch: bool

    @property
    def replayed(self) -> int:
        """Samples per draw: never more than there are slots, so that a memory of no slots is exactly no replay."""
        return min(self.batch, self.capacity)


class Stage(NamedTuple):
    """What is learned in one go: one task, or all of them in joint training."""

    task: int
    samples: Integers  # [n], indices into the training pool
    schedule: Schedule
    offered: int  # samples that were offered to memory before this stage

    def samples_until(self, step: int) -> int:
        """Return how many samples the steps before *step* train on, replayed ones left out."""
        return self.schedule.offered(step, every_epoch=True)


class Draws:
    """The draws of the members *seeds*; the same numbers for a member in any company."""

    def __init__(self, seeds: Sequence[int], plan: MemoryPlan, *, device: torch.device, dtype: torch.dtype) -> None:
        self.seeds = tuple(seeds)
        self.plan = plan
        self.device = device
        self.dtype = dtype
        self._orders = lru_cache(maxsize=1)(self._draw_orders)
        self._block = lru_cache(maxsize=1 + len(plan.names))(self._draw_block)

    def chunk(self, stage: Stage, chunk: Chunk) -> Draw:
        """Return the draws of the steps of *chunk*, tensors [S, E, ...] on the device."""
        steps = range(chunk.first, chunk.first + chunk.count)
        offered = np.array([stage.offered + self._offered(stage, step) for step in steps])
        order = self._orders(stage.task, chunk.epoch, len(stage.samples))
        end = chunk.offset + chunk.count * chunk.batch
        current = order[:, chunk.offset : end].reshape(len(self.seeds), chunk.count, chunk.batch)
        keeps = self.plan.capacity > 0 and (chunk.epoch == 0 or self.plan.every_epoch)
        return Draw(
            self._to_device(stage.samples[current]),
            {name: self._replay(name, stage, chunk, offered) for name in self.plan.names},
            (self._to_device(self._keep(stage, chunk, offered)),) if keeps else (),
        )

    def _offered(self, stage: Stage, step: int) -> int:
        return stage.schedule.offered(step, every_epoch=self.plan.every_epoch)

    def _keep(self, stage: Stage, chunk: Chunk, offered: Integers) -> Integers:
        uniform = self._uniform(streams.RESERVOIR, stage, chunk, stage.schedule.batch)[..., : chunk.batch]
        return reservoir_slots(uniform, offered, self.plan.capacity)

    def _replay(self, name: str, stage: Stage, chunk: Chunk, offered: Integers) -> Replay:
        uniform = self._uniform(f"{streams.REPLAY}.{name}", stage, chunk, self.plan.replayed)
        slots, counts = replay_slots(uniform, np.minimum(offered, self.plan.capacity))
        weight = torch.from_numpy(counts).to(self.device, self.dtype)
        return Replay(self._to_device(slots), weight[:, None].expand(-1, len(self.seeds), -1))

    def _uniform(self, purpose: str, stage: Stage, chunk: Chunk, width: int) -> NDArray[np.float64]:
        block, first = divmod(chunk.first, BLOCK)
        return self._block(purpose, stage.task, block, width)[:, first : first + chunk.count]

    def _draw_block(self, purpose: str, task: int, block: int, width: int) -> NDArray[np.float64]:
        drawn = [streams.uniforms(seed, purpose, task=task, index=block, count=BLOCK * width) for seed in self.seeds]
        return np.stack(drawn).reshape(len(self.seeds), BLOCK, width)

    def _draw_orders(self, task: int, epoch: int, samples: int) -> Integers:
        return np.stack(
            [streams.permutation(seed, streams.ORDER, task=task, index=epoch, count=samples) for seed in self.seeds]
        )

    def _to_device(self, values: Integers) -> Tensor:
        """Move [E, S, ...] to the device as [S, E, ...]."""
        return torch.from_numpy(values).to(self.device).transpose(0, 1)
