"""What chance decides in a step, for all members: which samples are learned, replayed and kept.

Numbers are drawn per block of steps and per epoch on the host, and go to the device once per chunk. Every number is a function
of the seed and of the step; what is drawn with it also depends on what memory holds, which is worked out here for all steps of
a chunk, so that a training step only gathers.

Shapes: E members, S steps of a chunk, B samples per step, R replayed samples, K references, Q samples of each, M slots.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contilab.engine import streams
from contilab.engine.augmentation import PLAIN, Augmentation
from contilab.engine.memory.entries import Floats, Integers
from contilab.engine.memory.looks import Found, Look, look_through, of_each_earlier_task, of_earlier_tasks, replayed
from contilab.engine.memory.memories import Memories
from contilab.engine.memory.plan import MemoryPlan
from contilab.engine.memory.replay import Flags, replay_slots
from contilab.engine.mixture import Mixture
from contilab.engine.schedule import BLOCK, Chunk, Schedule


class Replay(NamedTuple):
    """One draw from memory; weight is 0 for padding. *slots*: where the logits of the entries lie, if memory keeps any.

    *views*: how each sample is shown, see `augmentation`; none where all are shown as they are.
    """

    samples: Tensor  # [R] int64, their indices
    weight: Tensor  # [R] float
    slots: tuple[Tensor, ...] = ()  # one [R] int64, or none
    views: tuple[Tensor, ...] = ()  # one [R, 3] int64, or none


class Draw(NamedTuple):
    """The draws of one step; of a chunk with [S, E] in front."""

    current: Tensor  # [B] int64, sample indices
    replay: dict[str, Replay]
    keep: tuple[Tensor, ...] = ()  # one [B] int64, the slot that the logits of each sample take; or none
    references: tuple[Replay, ...] = ()  # one, samples and weight [K, Q]; or none
    views: tuple[Tensor, ...] = ()  # one [B, 3] int64, how each current sample is shown; or none
    seen: tuple[Tensor, ...] = ()  # one [C] bool, the training mask where tasks mix: all rows learned so far; or none


def unbind(draws: Draw) -> list[Draw]:
    """Return the draws along the first axis: of a chunk its steps, of a step its members.

    Written out, because trees would cost each step of one member 0.05 ms, 3 % of the step of an MLP 2x400.
    """
    replays = {name: _unbound(replay) for name, replay in draws.replay.items()}
    keeps = [slots.unbind() for slots in draws.keep]
    references = [_unbound(reference) for reference in draws.references]
    views, seen = ([value.unbind() for value in values] for values in (draws.views, draws.seen))
    return [
        Draw(
            current,
            {name: parts[place] for name, parts in replays.items()},
            tuple(keep[place] for keep in keeps),
            tuple(parts[place] for parts in references),
            tuple(own[place] for own in views),
            tuple(own[place] for own in seen),
        )
        for place, current in enumerate(draws.current.unbind())
    ]


def packed(values: Tensor) -> Tensor:
    """Return *values* without gaps between them, with the strides that follow from their shape alone.

    As draws come, their strides depend on the number of steps of the whole chunk; `contiguous` leaves that of an axis of one
    member so.
    """
    return values.contiguous().flatten().view(values.shape)


def _unbound(replay: Replay) -> list[Replay]:
    pairs = zip(replay.samples.unbind(), replay.weight.unbind(), strict=True)
    if not (replay.slots or replay.views):
        return [Replay(*pair) for pair in pairs]
    slots, views = ([value.unbind() for value in values] for values in (replay.slots, replay.views))
    return [
        Replay(*pair, tuple(own[place] for own in slots), tuple(own[place] for own in views))
        for place, pair in enumerate(pairs)
    ]


class Stage(NamedTuple):
    """What is learned in one go: one task, all of them in joint training, or also what memory holds.

    *task* counts the stages; *samples* are learned in it besides entries of memory; *new* are offered to memory. *has_entries*:
    the entries that memory holds when the stage begins are learned too. *fills*: all new samples are offered before the first
    step, and only then is anything learned.
    """

    task: int
    samples: Integers  # [n], indices into the training pool
    schedule: Schedule
    new: Integers
    has_entries: bool = False
    fills: bool = False

    def samples_until(self, step: int) -> int:
        """Return how many samples the steps before *step* train on, replayed ones left out."""
        return self.schedule.offered(step, every_epoch=True)


class Draws:
    """The draws of the members *seeds*; the same numbers for a member in any company.

    *mixture*: of a stream whose tasks mix. *masks_seen*: the training mask is then what was seen, step by step.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        plan: MemoryPlan,
        *,
        device: torch.device,
        dtype: torch.dtype,
        augmentation: Augmentation = PLAIN,
        mixture: Mixture | None = None,
        masks_seen: bool = False,
    ) -> None:
        self.seeds = tuple(seeds)
        self.plan = plan
        self.device = device
        self.dtype = dtype
        self.augmentation = augmentation
        self.mixture = mixture
        self.masks_seen = masks_seen
        self._lines = lru_cache(maxsize=1)(self._draw_lines)
        self._firsts = lru_cache(maxsize=1)(self._draw_firsts)
        self._orders = lru_cache(maxsize=1)(self._draw_orders)
        self._block = lru_cache(maxsize=4 + 2 * len(plan.names))(self._draw_block)

    def chunk(self, stage: Stage, chunk: Chunk, memory: Memories) -> Draw:
        """Return the draws of the steps of *chunk*, tensors [S, E, ...] on the device; *memory* goes on to the end of it."""
        if stage.fills and chunk.first == 0:
            self.offer_all(stage, memory)
        current = self._current(stage, chunk, memory)
        keeps = self.plan.keeps(chunk.epoch) and not stage.fills
        slots = memory.slots_for(current, self._offer_numbers(stage, chunk)) if keeps else None
        looks = [*self._replay_looks(stage, chunk, memory, slots), *self._reference_looks(stage, chunk, memory)]
        numbers = memory.numbers(chunk.count, chunk.batch)

        def take_in(step: int) -> None:
            if slots is not None:
                memory.write(slots[:, step], current[:, step], numbers[:, step])

        found = look_through(looks, chunk.count, take_in)
        if slots is not None:
            memory.count_offered(current)
        for own in found:
            memory.count_replayed(own.counts)
        names = [*self.plan.names, streams.REFERENCE]
        replays = [self._replay(own, name, stage, chunk) for own, name in zip(found, names, strict=False)]
        return Draw(
            self._to_device(current),
            dict(zip(self.plan.names, replays, strict=False)),
            (self._to_device(slots),) if slots is not None and self.plan.keeps_logits else (),
            tuple(replays[len(self.plan.names) :]),
            self._views("current", stage, chunk, (chunk.batch,), width=stage.schedule.batch),
            self._seen(stage, chunk),
        )

    def offer_all(self, stage: Stage, memory: Memories) -> None:
        """Offer all new samples of *stage* to *memory*, in an order of their own."""
        count = len(stage.new)
        order = np.stack(
            [streams.permutation(seed, streams.OFFER, task=stage.task, index=0, count=count) for seed in self.seeds]
        )
        uniform = [streams.uniforms(seed, streams.OFFER_DRAW, task=stage.task, index=0, count=count) for seed in self.seeds]
        new = np.broadcast_to(stage.new, order.shape) if not self._is_fuzzy else self._lines(stage.task)
        memory.take_in(np.take_along_axis(new, order, -1), np.stack(uniform))

    @property
    def _is_fuzzy(self) -> bool:
        return self.mixture is not None and self.mixture.width > 0

    def _seen(self, stage: Stage, chunk: Chunk) -> tuple[Tensor, ...]:
        """Return the rows [S, E, C] that each member has learned by the end of each step; none where masks are the tasks'."""
        if not self.masks_seen:
            return ()
        before, first = self._firsts(stage.task)
        is_over = stage.fills or stage.has_entries or chunk.epoch > 0
        ends = chunk.offset + chunk.batch * (np.arange(chunk.count) + 1)
        ends = np.full_like(ends, stage.schedule.samples + len(stage.new)) if is_over else ends
        return (self._to_device(before[:, None] | (first[:, None] < ends[:, None])),)

    def _current(self, stage: Stage, chunk: Chunk, memory: Memories) -> Integers:
        end = chunk.offset + chunk.count * chunk.batch
        if self._is_fuzzy and not stage.has_entries:
            lines = self._lines(stage.task)[:, chunk.offset : end]
            return lines.reshape(len(self.seeds), chunk.count, chunk.batch)
        order = self._orders(stage.task, chunk.epoch, stage.schedule.samples)
        places = order[:, chunk.offset : end].reshape(len(self.seeds), chunk.count, chunk.batch)
        if not stage.has_entries:
            return stage.samples[places]
        memory.count_replayed(places >= len(stage.samples))
        # Memory stands still while such a stage is trained, so its entries are those of the beginning.
        entries = memory.samples[:, : stage.schedule.samples - len(stage.samples)]
        pool = np.concatenate([np.broadcast_to(stage.samples, (len(entries), len(stage.samples))), entries], axis=1)
        return np.take_along_axis(pool[:, None], places, -1)

    def _replay_looks(self, stage: Stage, chunk: Chunk, memory: Memories, slots: Integers | None) -> list[Look]:
        occupied = memory.occupied[:, None].repeat(chunk.count, 1) if slots is None else memory.occupied_before(slots)
        numbers = [self._uniform(f"{streams.REPLAY}.{name}", stage, chunk, self.plan.replayed) for name in self.plan.names]
        return [replayed(memory, *replay_slots(uniform, occupied)) for uniform in numbers]

    def _reference_looks(self, stage: Stage, chunk: Chunk, memory: Memories) -> list[Look]:
        if self.plan.reference is None or not self.plan.capacity or stage.task == 0:
            return []
        wanted = self.plan.reference.samples
        if wanted is None:
            return [of_each_earlier_task(memory, task=stage.task, is_still=self.mixture is None)]
        uniform = self._uniform(streams.REFERENCE, stage, chunk, self.plan.capacity)
        return [of_earlier_tasks(memory, uniform, task=stage.task, wanted=wanted)]

    def _offer_numbers(self, stage: Stage, chunk: Chunk) -> Floats:
        return self._uniform(streams.RESERVOIR, stage, chunk, stage.schedule.batch)[..., : chunk.batch]

    def _replay(self, found: Found, name: str, stage: Stage, chunk: Chunk) -> Replay:
        weight = torch.from_numpy(found.counts).to(self.device, self.dtype).transpose(0, 1)
        slots = (self._to_device(found.slots),) if self.plan.keeps_logits else ()
        shape = found.samples.shape[2:]
        return Replay(self._to_device(found.samples), weight, slots, self._views(name, stage, chunk, shape, width=prod(shape)))

    def _views(self, name: str, stage: Stage, chunk: Chunk, shape: tuple[int, ...], *, width: int) -> tuple[Tensor, ...]:
        """Return how the samples [S, E, *shape] of the batches *name* are shown; *width*: samples of its largest batch."""
        if self.augmentation.views == 1:
            return ()
        uniform = self._uniform(f"{streams.AUGMENT}.{name}", stage, chunk, width)[..., : prod(shape)]
        return (self._to_device(self.augmentation.drawn(uniform.reshape(*uniform.shape[:2], *shape))),)

    def _uniform(self, purpose: str, stage: Stage, chunk: Chunk, width: int) -> Floats:
        block, first = divmod(chunk.first, BLOCK)
        return self._block(purpose, stage.task, block, width)[:, first : first + chunk.count]

    def _draw_block(self, purpose: str, task: int, block: int, width: int) -> NDArray[np.float64]:
        drawn = [streams.uniforms(seed, purpose, task=task, index=block, count=BLOCK * width) for seed in self.seeds]
        return np.stack(drawn).reshape(len(self.seeds), BLOCK, width)

    def _draw_orders(self, task: int, epoch: int, samples: int) -> Integers:
        return np.stack(
            [streams.permutation(seed, streams.ORDER, task=task, index=epoch, count=samples) for seed in self.seeds]
        )

    def _draw_lines(self, task: int) -> Integers:
        assert self.mixture is not None  # noqa: S101 - asked for only where tasks mix
        return np.stack([self.mixture.line(seed, task) for seed in self.seeds])

    def _draw_firsts(self, task: int) -> tuple[Flags, Integers]:
        """Return the rows [E, C] seen before stage *task*, and the place of the first sample of each row in it."""
        assert self.mixture is not None  # noqa: S101 - asked for only where tasks mix
        before = np.stack([self.mixture.seen_after(seed, task - 1) for seed in self.seeds])
        return before, np.stack([self.mixture.first_places(seed, task) for seed in self.seeds])

    def _to_device(self, values: Integers | Flags) -> Tensor:
        """Move [E, S, ...] to the device as [S, E, ...]."""
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device).transpose(0, 1)
