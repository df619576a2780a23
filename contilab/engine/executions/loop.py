"""One member after the other, each with its own tensors.

Shapes, alignment and kernels are those of a single run, so on one CPU thread a member has the bits of the same seed alone.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from contilab.engine.draws import Draw, unbind
from contilab.engine.ensemble import MemberState, clone
from contilab.engine.executions.contract import Execution
from contilab.engine.step import Learner, Lesson, make_learn, make_move, owned
from contilab.models.contract import Params


def loop(learner: Learner) -> Execution:
    """Return the member loop."""
    learn, move = make_learn(learner, gradient), make_move(learner)

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

    return Execution(gather=lambda members: [clone(member) for member in members], scatter=list, train=train)


def gradient(function: Callable[[Params], tuple[Tensor, Tensor]], params: Params) -> tuple[Params, tuple[Tensor, Tensor]]:
    """Return the gradients of *function* at *params*, its value, and what it returns beside it.

    By plain autograd: `torch.func.grad` costs a single member 0.3 ms per step, a third of the step of an MLP 2x400.
    """
    leaves: Any = {name: value.detach().requires_grad_() for name, value in params.items()}
    with torch.enable_grad():
        value, beside = function(leaves)
    grads = torch.autograd.grad(value, tuple(leaves.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(params, grads, strict=True)), (value.detach(), beside)
