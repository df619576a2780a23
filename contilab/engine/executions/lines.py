"""What the steps of a chunk learn from, looked up for all of them at once: a step itself only gathers its inputs.

Shapes: S steps, E members, B samples of all batches of a step, R of one draw from memory, C head rows.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from contilab.engine.draws import Draw
from contilab.engine.executions.head import Targets
from contilab.engine.step import Lesson


class Line(NamedTuple):
    """One step of all members."""

    samples: Tensor  # [E * B] int64, of each member the current batch and what was drawn from memory
    slots: dict[str, Tensor]  # [E, R, 1] where the stored logits of replayed samples lie; of methods that keep some
    keep: tuple[Tensor, ...]  # one [E, B of the current batch], the slots that its logits take; or none
    views: tuple[Tensor, ...]  # one [E * B, 3], how each of the samples is shown; or none


class References(NamedTuple):
    """The reference batches of the steps, K of each one after the other: samples [E * Q] of S * K, and their targets.

    *views*: how the samples of each are shown, one [E * Q, 3], or none.
    """

    samples: tuple[Tensor, ...]
    targets: Targets
    views: list[tuple[Tensor, ...]]


def lines_of(draws: Draw) -> list[Line]:
    """Return the steps of *draws*, tensors [S, E, ...]."""
    samples = _samples(draws).flatten(1).unbind()
    slots = {name: replay.slots[0][..., None].unbind() for name, replay in draws.replay.items() if replay.slots}
    keeps = [slots.unbind() for slots in draws.keep]
    views = [own.flatten(1, 2).unbind() for own in _views(draws)]
    return [
        Line(
            own,
            {name: parts[step] for name, parts in slots.items()},
            tuple(keep[step] for keep in keeps),
            tuple(parts[step] for parts in views),
        )
        for step, own in enumerate(samples)
    ]


def targets_of(lesson: Lesson, draws: Draw) -> Targets:
    """Return the targets of the steps of *draws*."""
    weights = {"current": torch.ones_like(draws.current, dtype=lesson.inputs.dtype)}
    weights |= {name: replay.weight for name, replay in draws.replay.items()}
    return _targets(lesson, _samples(draws), weights, draws.seen)


def references_of(lesson: Lesson, draws: Draw) -> References | None:
    """Return the reference batches of the steps of *draws*; None if there are none."""
    if not draws.references:
        return None
    [reference] = draws.references
    count = reference.samples.shape[2]  # of each step
    samples, weight = (value.transpose(1, 2).flatten(0, 1) for value in (reference.samples, reference.weight))
    views = [own.transpose(1, 2).flatten(0, 1).flatten(1, 2).unbind() for own in reference.views]
    places = range(len(samples))
    return References(
        samples.flatten(1).unbind(),
        _targets(lesson, samples, {"reference": weight}, [own.repeat_interleave(count, 0) for own in draws.seen]),
        [tuple(parts[place] for parts in views) for place in places],
    )


def _samples(draws: Draw) -> Tensor:
    return torch.cat([draws.current, *(replay.samples for replay in draws.replay.values())], dim=-1)


def _views(draws: Draw) -> tuple[Tensor, ...]:
    """Return how the samples of all batches are shown, one [S, E, B, 3]; or none."""
    views = [*draws.views, *(view for replay in draws.replay.values() for view in replay.views)]
    return (torch.cat(views, dim=2),) if views else ()


def _targets(lesson: Lesson, samples: Tensor, weights: dict[str, Tensor], seen: Sequence[Tensor]) -> Targets:
    """Return the targets of *samples* [S, E, B]; *seen*: one [S, E, C], the mask of all of them, or none."""
    mask = lesson.masks[lesson.tasks[samples]]
    for own in seen:
        mask = own[:, :, None].expand_as(mask)
    return Targets(lesson.rows[samples], mask, weights)
