"""What the steps of a chunk learn from, looked up for all of them at once: a step itself only gathers its inputs.

Shapes: S steps, E members, B samples of all batches of a step, R of one draw from memory, C head rows.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from contilab.engine.draws import Draw
from contilab.engine.step import Extra, Lesson


class Line(NamedTuple):
    """One step of all members."""

    samples: Tensor  # [E, B] int64, the current batch and what was drawn from memory
    row: Tensor  # [E, B]
    mask: Tensor  # [E, B, C]
    weights: dict[str, Tensor]  # [E, R] by batch
    slots: dict[str, Tensor]  # [E, R] where the stored logits of replayed samples lie; of methods that keep some
    keep: tuple[Tensor, ...]  # one [E, B of the current batch], the slots that its logits take; or none


def lines(lesson: Lesson, draws: Draw) -> list[Line]:
    """Return the steps of *draws*, tensors [S, E, ...]."""
    samples = torch.cat([draws.current, *(replay.samples for replay in draws.replay.values())], dim=-1)
    weight = {"current": torch.ones_like(draws.current, dtype=lesson.inputs.dtype)}
    weight |= {name: replay.weight for name, replay in draws.replay.items()}
    slots = {name: replay.slots[0] for name, replay in draws.replay.items() if replay.slots}
    parts = zip(samples.unbind(), lesson.rows[samples].unbind(), lesson.masks[lesson.tasks[samples]].unbind(), strict=True)
    weights, places = _by_step(weight, len(samples)), _by_step(slots, len(samples))
    keeps = draws.keep[0].unbind() if draws.keep else None
    return [
        Line(*part, weights[step], places[step], () if keeps is None else (keeps[step],)) for step, part in enumerate(parts)
    ]


def extras_of(line: Line, stored: Tensor, teacher: Tensor | None) -> dict[str, Extra]:
    """Return what the batches of *line* have beside logits, rows and masks; *stored* [E, M, C], *teacher* [E, B, C]."""
    return {
        name: Extra(
            weight,
            stored.take_along_dim(line.slots[name][..., None], dim=1) if name in line.slots else None,
            teacher if name == "current" else None,
        )
        for name, weight in line.weights.items()
    }


def _by_step(tensors: dict[str, Tensor], steps: int) -> list[dict[str, Tensor]]:
    unbound = {name: value.unbind() for name, value in tensors.items()}
    return [{name: parts[step] for name, parts in unbound.items()} for step in range(steps)]
