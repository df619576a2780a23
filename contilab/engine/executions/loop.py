"""One member after the other, each with its own tensors.

Shapes, alignment and kernels are those of a single run, so on one CPU thread a member has the bits of the same seed alone.
Images and kernels lie in channels_last while they are trained, which makes convolutions up to 1.4 times faster on a CPU;
outside of the loop members lie as everywhere else, so that nothing else changes its numbers.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from contilab.engine.draws import Draw, unbind
from contilab.engine.ensemble import MemberState, clone
from contilab.engine.executions.contract import Execution
from contilab.engine.step import Learner, Lesson, make_learn, make_move, owned
from contilab.models.contract import Params
from contilab.models.layout import channels_last, in_channels_last


def loop(learner: Learner) -> Execution:
    """Return the member loop."""
    is_convolutional = learner.model.is_convolutional
    learner = learner._replace(model=channels_last(learner.model))
    learn, move = make_learn(learner, gradient), make_move(learner, is_alone=True)

    def step(lesson: Lesson, member: MemberState, draw: Draw) -> tuple[MemberState, Tensor]:
        learned = learn(lesson, member, draw)
        moved, penalty = move(lesson, member, learned._replace(grads=owned(learned.grads)), draw)
        return moved, learned.loss + penalty

    def train(members: list[MemberState], lesson: Lesson, draws: Draw) -> tuple[list[MemberState], Tensor]:
        losses = []
        for draw in unbind(draws):
            pairs = [step(lesson, member, own) for member, own in zip(members, unbind(draw), strict=True)]
            members = [member for member, _ in pairs]
            losses.append(torch.stack([loss for _, loss in pairs]))
        return members, torch.stack(losses)

    def gather(members: list[MemberState]) -> list[MemberState]:
        return [_laid_out(clone(member)) if is_convolutional else clone(member) for member in members]

    def scatter(members: list[MemberState]) -> list[MemberState]:
        return [pytree.tree_map(torch.Tensor.contiguous, member) for member in members] if is_convolutional else list(members)

    return Execution(gather=gather, scatter=scatter, train=train)


def _laid_out(member: MemberState) -> MemberState:
    """Return *member* with everything of the shape of a kernel in channels_last."""
    laid: MemberState = pytree.tree_map(in_channels_last, member)
    return laid


def gradient(function: Callable[[Params], tuple[Tensor, Any]], params: Params) -> tuple[Params, tuple[Tensor, Any]]:
    """Return the gradients of *function* at *params*, its value, and what it returns beside it.

    By plain autograd: `torch.func.grad` costs a single member 0.3 ms per step, a third of the step of an MLP 2x400.
    """
    leaves: Any = {name: value.detach().requires_grad_() for name, value in params.items()}
    with torch.enable_grad():
        value, beside = function(leaves)
    grads = torch.autograd.grad(value, tuple(leaves.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(params, grads, strict=True)), (value.detach(), beside)
