"""One member after the other, each with its own tensors.

Shapes, alignment and kernels are those of a single run, so on one CPU thread a member has the bits of the same seed alone.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from contilab.engine.draws import Draw
from contilab.engine.ensemble import MemberState, clone
from contilab.engine.executions.contract import Execution
from contilab.engine.step import Learner, Lesson, make_step
from contilab.models.contract import Params


def loop(learner: Learner) -> Execution:
    """Return the member loop."""
    step = make_step(learner, gradient)

    def train(members: list[MemberState], lesson: Lesson, draws: Draw) -> tuple[list[MemberState], Tensor]:
        leaves, tree = pytree.tree_flatten(draws)
        losses = []
        for parts in zip(*leaves, strict=True):  # step by step: [E, ...]
            trained = [
                step(lesson, member, pytree.tree_unflatten(own, tree))
                for member, *own in zip(members, *(part.unbind() for part in parts), strict=True)
            ]
            members = [member for member, _ in trained]
            losses.append(torch.stack([loss for _, loss in trained]))
        return members, torch.stack(losses)

    return Execution(gather=lambda members: [clone(member) for member in members], scatter=list, train=train)


def gradient(function: Callable[[Params], Tensor], params: Params) -> tuple[Params, Tensor]:
    """Return the gradients of *function* at *params*, and its value.

    By plain autograd: `torch.func.grad` costs a single member 0.3 ms per step, a third of the step of an MLP 2x400.
    """
    leaves: Any = {name: value.detach().requires_grad_() for name, value in params.items()}
    with torch.enable_grad():
        value = function(leaves)
    grads = torch.autograd.grad(value, tuple(leaves.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(params, grads, strict=True)), value.detach()
