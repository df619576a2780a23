"""The training step of one member, in the order in which it is executed.

Gather B and what was drawn from memory, augmented; loss and gradient; gradient transform; parameter update; keep logits of B.
What memory holds is worked out before the step (see `draws`), so no sample is replayed in the step in which it arrives. A step
has two halves, because ensembles gain from different forms of them: `learn`, where the arithmetic is products of matrices, and
`move`, where it is elementwise and as fast as memory is. See `executions`.

Shapes, without member axis: B current samples, R of one draw from memory, C head rows, T tasks, N samples of the training pool.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from contilab.engine.augmentation import shown
from contilab.engine.draws import Draw
from contilab.engine.ensemble import MemberState, clone
from contilab.models.contract import MOMENTUM, NO_TENSORS, WEIGHT, Model, Params
from contilab.optim.contract import Optimiser
from contilab.strategies.contract import Batch, StepEnd, Strategy, cross_entropy, weighted_mean

CLIP_GUARD = 1e-6  # added to the norm that is divided by, as in torch.nn.utils.clip_grad_norm_

# (function to (value, auxiliary), params) -> gradients, (value, auxiliary)
Gradient = Callable[[Callable[[Params], tuple[Tensor, Any]], Params], tuple[Params, tuple[Tensor, Any]]]

# Loss, logits that memory keeps, moments of norms. A name, because dynamo cannot compile a nested type inside of a function.
Judged = tuple[Tensor, tuple[Tensor, Params]]


class Lesson(NamedTuple):
    """What all members share while one stage is trained: the training pool, and the mask of each task's samples."""

    inputs: Tensor  # [N, *shape] float, or as they are stored: the model then takes them so
    rows: Tensor  # [N] int64
    tasks: Tensor  # [N] int64
    masks: Tensor  # [T, C] bool
    stage: int = 0
    is_on_host: bool = False  # the inputs, whatever device trains: see `pools`


class Learner(NamedTuple):
    """What is trained and how: the three plugins of a run."""

    model: Model
    strategy: Strategy
    optimiser: Optimiser


class Learned(NamedTuple):
    """What the samples of a step say of one member."""

    grads: Params  # of the data loss
    loss: Tensor  # []
    logits: Tensor  # [B, C] of the current batch, or [0] if memory keeps none
    references: Params  # [K, *shape] by name; empty without references
    moments: Params = NO_TENSORS  # of the norms over the batch, by the names of the buffers


Learn = Callable[[Lesson, MemberState, Draw], Learned]
Move = Callable[[Lesson, MemberState, Learned, Draw], tuple[MemberState, Tensor]]  # -> moved member, penalty


def make_learn(learner: Learner, gradient: Gradient) -> Learn:
    """Return the first half of a step: what the samples say."""
    model, strategy = learner.model, learner.strategy

    def learn(lesson: Lesson, member: MemberState, draw: Draw) -> Learned:
        index = torch.cat([draw.current, *(replay.samples for replay in draw.replay.values())])
        x = inputs_of(lesson, index, [draw.views, *(replay.views for replay in draw.replay.values())])
        row, mask = lesson.rows[index], mask_of(lesson, index, draw)
        parts = extras(learner, lesson, member, draw, x)

        given = weights_of(model, [part.weight for part in parts.values()]) if draw.replay else {}

        def loss(params: Params) -> Judged:
            _, logits, moments = model.forward(params, given, x)  # one pass over current and replayed samples
            kept = logits[: len(draw.current)].detach() if strategy.keeps_logits else logits.new_empty(0)
            return strategy.loss(member.strategy, batches_of(logits, row, mask, parts)), (kept, moments)

        grads, (value, (logits, moments)) = gradient(loss, member.params)
        return Learned(grads, value, logits, _references(learner, lesson, member, draw, gradient), moments)

    return learn


def weights_of(model: Model, weights: Sequence[Tensor]) -> Params:
    """Return what *model* is told of batches that lie one after the other: padding must not count in norms over them."""
    return {WEIGHT: torch.cat(list(weights))} if model.buffers else {}


def inputs_of(lesson: Lesson, index: Tensor, views: Sequence[tuple[Tensor, ...]]) -> Tensor:
    """Return the inputs of the samples *index* [B] as the *views* of their batches, which lie one after the other, say."""
    x = lesson.inputs[index]
    parts = [part for own in views for part in own]
    return shown(x, torch.cat(parts)) if parts else x


def mask_of(lesson: Lesson, index: Tensor, draw: Draw) -> Tensor:
    """Return the training masks [B, C] of the samples *index* [B]: those of their tasks, or where tasks mix what was seen."""
    if draw.seen:
        (seen,) = draw.seen
        return seen.expand(len(index), -1)
    return lesson.masks[lesson.tasks[index]]


class Extra(NamedTuple):
    """What a batch has beside logits, rows and masks."""

    weight: Tensor  # [B]
    stored: Tensor | None = None  # [B, C]
    teacher: Tensor | None = None  # [B, C]


def extras(learner: Learner, lesson: Lesson, member: MemberState, draw: Draw, x: Tensor) -> dict[str, Extra]:
    """Return weights of the batches by name, stored logits of replayed ones, and what the teacher says of the current one.

    x: the inputs of all batches, the current one first.
    """
    teacher, one = None, next(iter(member.params.values()))  # inputs may be of another type, as they are stored
    if learner.strategy.teacher is not None and lesson.stage > 0:
        told = learner.model.forward(learner.strategy.teacher(member.strategy), member.frozen, x[: len(draw.current)])
        teacher = told.logits.detach()
    found = {"current": Extra(one.new_ones(len(draw.current)), None, teacher)}
    for name, replay in draw.replay.items():
        found[name] = Extra(replay.weight, *(member.stored[slots] for slots in replay.slots))
    return found


def batches_of(logits: Tensor, row: Tensor, mask: Tensor, parts: Mapping[str, Extra]) -> dict[str, Batch]:
    """Return the batches, which lie one after the other, by name."""
    sizes = [len(part.weight) for part in parts.values()]
    split = zip(torch.split(logits, sizes), torch.split(row, sizes), torch.split(mask, sizes), strict=True)
    return {name: Batch(*own, *part) for (name, part), own in zip(parts.items(), split, strict=True)}


def _references(learner: Learner, lesson: Lesson, member: MemberState, draw: Draw, gradient: Gradient) -> Params:
    """Return the gradients of the mean cross entropy of each reference batch, [K, *shape] by name."""
    found: list[Params] = []
    for reference in draw.references:
        for place, (index, weight) in enumerate(zip(reference.samples.unbind(), reference.weight.unbind(), strict=True)):
            x = inputs_of(lesson, index, [tuple(views[place] for views in reference.views)])
            row, mask = lesson.rows[index], mask_of(lesson, index, draw)

            def loss(
                params: Params, x: Tensor = x, row: Tensor = row, mask: Tensor = mask, weight: Tensor = weight
            ) -> tuple[Tensor, Tensor]:
                given = weights_of(learner.model, [weight])
                batch = Batch(learner.model.forward(params, given, x).logits, row, mask, weight)
                value = weighted_mean(cross_entropy(batch), weight)
                return value, value.detach()

            found.append(gradient(loss, member.params)[0])
    if len(found) == 1:  # nothing to copy, as for agem
        return {name: grad[None] for name, grad in found[0].items()}
    return {name: torch.stack([grads[name] for grads in found]) for name in member.params} if found else {}


def make_move(learner: Learner, *, is_alone: bool = False) -> Move:
    """Return the second half of a step: what is made of it. It owns its gradients and may write into them.

    *is_alone*: it is neither vmapped nor compiled.
    """
    strategy, optimiser = learner.strategy, learner.optimiser
    update = optimiser.alone if is_alone and optimiser.alone is not None else optimiser.update

    def move(lesson: Lesson, member: MemberState, learned: Learned, draw: Draw) -> tuple[MemberState, Tensor]:
        params, optimiser_state, state, stored, buffers, frozen = member
        grads, penalty = learned.grads, learned.loss.new_zeros(())
        watched = strategy.after_step is not None  # then the gradient of the data must outlive the optimiser
        before = clone(params) if watched else {}
        if strategy.penalty is not None and lesson.stage > 0:
            penalty, pulls = strategy.penalty(state, params)
            add = torch.add if watched else Tensor.add_
            grads = {name: add(grad, pulls[name]) for name, grad in grads.items()}
        elif watched:
            grads = clone(grads)
        if strategy.project is not None and learned.references:
            grads = strategy.project(state, grads, learned.references)
        if optimiser.clip_norm is not None:
            grads = clip(grads, optimiser.clip_norm)
        params, optimiser_state = update(params, grads, optimiser_state)
        if strategy.after_step is not None:
            state = strategy.after_step(state, StepEnd(before, params, learned.grads))
        for slots in draw.keep:
            stored = empty_bin(stored.index_copy(0, slots, learned.logits))
        if buffers:
            buffers = {name: torch.lerp(value, learned.moments[name], MOMENTUM) for name, value in buffers.items()}
        return MemberState(params, optimiser_state, state, stored, buffers, frozen), penalty

    return move


def empty_bin(stored: Tensor) -> Tensor:
    """Write zeros into the bin of *stored* [..., M + 1, C] where samples reach it in any order, as on a GPU, and return it."""
    if stored.is_cuda:
        stored[..., -1, :].zero_()
    return stored


def are_looked_at(learner: Learner, draws: Draw) -> bool:
    """Tell whether anything but a penalty and the update needs the gradients of *draws*."""
    strategy = learner.strategy
    is_projected = strategy.project is not None and bool(draws.references)
    return strategy.after_step is not None or is_projected or learner.optimiser.clip_norm is not None


def owned(grads: Params) -> Params:
    """Return *grads* as tensors that share no memory: autograd may give two parameters one gradient, or an expanded one."""
    places = [grad.data_ptr() for grad in grads.values()]
    alone = {name: _is_dense(grad) and places.count(grad.data_ptr()) == 1 for name, grad in grads.items()}
    return {name: grad if alone[name] else grad.clone(memory_format=torch.contiguous_format) for name, grad in grads.items()}


def _is_dense(grad: Tensor) -> bool:
    in_channels_last = grad.ndim == 4 and grad.is_contiguous(memory_format=torch.channels_last)
    return in_channels_last or grad.is_contiguous()


def clip(grads: Params, limit: float) -> Params:
    """Scale the gradient of one member to a norm of at most *limit*; the norm is taken over all of its parameters."""
    norm = torch.stack([(grad * grad).sum() for grad in grads.values()]).sum().sqrt()
    factor = (limit / (norm + CLIP_GUARD)).clamp(max=1.0)
    return {name: grad * factor for name, grad in grads.items()}
