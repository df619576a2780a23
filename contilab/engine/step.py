"""The training step of one member, in the order in which it is executed.

Draw B' from memory; loss and gradient; gradient transform; parameter update; insert B into memory. So no sample is replayed in
the step in which it arrives. The step has two halves, because ensembles gain from different forms of them: `learn`, where the
arithmetic is products of matrices, and `move`, where it is elementwise and as fast as memory is. See `executions`.

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


Learn = Callable[[Lesson, MemberState, Draw], tuple[Params, Tensor]]  # -> gradients of the data, loss
Move = Callable[[MemberState, Params, Draw], tuple[MemberState, Tensor]]  # (member, gradients, draw) -> moved member, penalty


def make_learn(learner: Learner, gradient: Gradient) -> Learn:
    """Return the first half of a step: what the samples say."""
    model, strategy = learner.model, learner.strategy

    def learn(lesson: Lesson, member: MemberState, draw: Draw) -> tuple[Params, Tensor]:
        drawn = {name: member.memory[replay.slots] for name, replay in draw.replay.items()}
        index = torch.cat([draw.current, *drawn.values()]) if drawn else draw.current
        x, row, mask = lesson.inputs[index], lesson.rows[index], lesson.masks[lesson.tasks[index]]
        weights = {"current": x.new_ones(len(draw.current)), **{name: replay.weight for name, replay in draw.replay.items()}}

        def loss(params: Params) -> Tensor:
            logits = model.forward(params, {}, x).logits  # one pass over current and replayed samples
            return strategy.loss(member.strategy, _split(logits, row, mask, weights))

        return gradient(loss, member.params)

    return learn


def make_move(learner: Learner, gradient: Gradient) -> Move:
    """Return the second half of a step: what is made of it. It owns its gradients and may write into them."""
    strategy, optimiser = learner.strategy, learner.optimiser

    def move(member: MemberState, grads: Params, draw: Draw) -> tuple[MemberState, Tensor]:
        params, optimiser_state, state, kept = member
        penalty = params[next(iter(params))].new_zeros(())
        if strategy.penalty is not None:
            pull_of = strategy.penalty
            pulls, penalty = gradient(lambda params: pull_of(state, params), params)
            grads = {name: grad.add_(pulls[name]) for name, grad in grads.items()}
        if optimiser.clip_norm is not None:
            grads = clip(grads, optimiser.clip_norm)
        params, optimiser_state = optimiser.update(params, grads, optimiser_state)
        for slots in draw.keep:
            kept = memory.insert(kept, slots, draw.current)
        return MemberState(params, optimiser_state, state, kept), penalty

    return move


def owned(grads: Params) -> Params:
    """Return *grads* as tensors that share no memory: autograd may give two parameters one gradient, or an expanded one."""
    places = [grad.data_ptr() for grad in grads.values()]
    alone = {name: grad.is_contiguous() and places.count(grad.data_ptr()) == 1 for name, grad in grads.items()}
    return {name: grad if alone[name] else grad.clone(memory_format=torch.contiguous_format) for name, grad in grads.items()}


def clip(grads: Params, limit: float) -> Params:
    """Scale the gradient of one member to a norm of at most *limit*; the norm is taken over all of its parameters."""
    norm = torch.stack([(grad * grad).sum() for grad in grads.values()]).sum().sqrt()
    factor = (limit / (norm + CLIP_GUARD)).clamp(max=1.0)
    return {name: grad * factor for name, grad in grads.items()}


def _split(logits: Tensor, row: Tensor, mask: Tensor, weights: dict[str, Tensor]) -> dict[str, Batch]:
    sizes = [len(weight) for weight in weights.values()]
    parts = zip(torch.split(logits, sizes), torch.split(row, sizes), torch.split(mask, sizes), weights.values(), strict=True)
    return {name: Batch(*part) for name, part in zip(weights, parts, strict=True)}
