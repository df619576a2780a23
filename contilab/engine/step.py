"""The training step of one member, in the order in which it is executed (methods.md (b)).

Draw B' from memory; loss and gradient; gradient transform; parameter update; insert B into memory. So no sample is replayed in
the step in which it arrives. An ensemble is this function, member after member or under vmap: see `executions`.

Shapes, without member axis: B current samples, R of one draw from memory, C head rows, T tasks, N samples of the training pool.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from contilab.engine import memory
from contilab.engine.draws import Draw
from contilab.engine.ensemble import MemberState
from contilab.models.contract import Model, Params
from contilab.optim.contract import Optimiser
from contilab.strategies.contract import Batch, Strategy

CLIP_GUARD = 1e-6  # added to the norm that is divided by, as in torch.nn.utils.clip_grad_norm_

Gradient = Callable[[Callable[[Params], Tensor], Params], tuple[Params, Tensor]]  # (function, params) -> gradients, value


class Lesson(NamedTuple):
    """What all members share while one stage is trained: the training pool, and the mask of each task's samples."""

    inputs: Tensor  # [N, *shape] float
    rows: Tensor  # [N] int64
    tasks: Tensor  # [N] int64
    masks: Tensor  # [T, C] bool


class Learner(NamedTuple):
    """What is trained and how: the three plugins of a run."""

    model: Model
    strategy: Strategy
    optimiser: Optimiser


Step = Callable[[Lesson, MemberState, Draw], tuple[MemberState, Tensor]]


def make_step(learner: Learner, gradient: Gradient) -> Step:
    """Return the function that trains one member by one step and returns its loss, penalty included."""
    model, strategy, optimiser = learner

    def step(lesson: Lesson, member: MemberState, draw: Draw) -> tuple[MemberState, Tensor]:
        params, optimiser_state, state, kept = member
        drawn = {"current": draw.current, **{name: kept[replay.slots] for name, replay in draw.replay.items()}}
        index = torch.cat(list(drawn.values())) if draw.replay else draw.current
        x, row, mask = lesson.inputs[index], lesson.rows[index], lesson.masks[lesson.tasks[index]]
        weights = {"current": x.new_ones(len(draw.current)), **{name: replay.weight for name, replay in draw.replay.items()}}

        def loss_of_data(params: Params) -> Tensor:
            logits = model.forward(params, {}, x).logits  # one pass over current and replayed samples
            return strategy.loss(state, _split(logits, row, mask, weights))

        grads, loss = gradient(loss_of_data, params)
        if strategy.penalty is not None:
            penalty = strategy.penalty
            pulls, pull = gradient(lambda params: penalty(state, params), params)
            grads = {name: grad + pulls[name] for name, grad in grads.items()}
            loss = loss + pull
        if optimiser.clip_norm is not None:
            grads = clip(grads, optimiser.clip_norm)
        params, optimiser_state = optimiser.update(params, grads, optimiser_state)
        for slots in draw.keep:
            kept = memory.insert(kept, slots, draw.current)
        return MemberState(params, optimiser_state, state, kept), loss

    return step


def clip(grads: Params, limit: float) -> Params:
    """Scale the gradient of one member to a norm of at most *limit*; the norm is taken over all of its parameters."""
    norm = torch.stack([(grad * grad).sum() for grad in grads.values()]).sum().sqrt()
    factor = (limit / (norm + CLIP_GUARD)).clamp(max=1.0)
    return {name: grad * factor for name, grad in grads.items()}


def _split(logits: Tensor, row: Tensor, mask: Tensor, weights: dict[str, Tensor]) -> dict[str, Batch]:
    sizes = [len(weight) for weight in weights.values()]
    parts = zip(torch.split(logits, sizes), torch.split(row, sizes), torch.split(mask, sizes), weights.values(), strict=True)
    return {name: Batch(*part) for name, part in zip(weights, parts, strict=True)}
