"""The step of one member under vmap: all members in one call, their tensors stacked."""

import torch
from torch import Tensor
from torch.func import grad_and_value
from torch.utils import _pytree as pytree

from contilab.engine.draws import Draw
from contilab.engine.ensemble import MemberState, stack, unstack
from contilab.engine.executions.contract import Execution
from contilab.engine.step import Learner, Lesson, make_step


def vmap(learner: Learner) -> Execution:
    """Return the vmapped step."""
    step = torch.func.vmap(make_step(learner, lambda function, params: grad_and_value(function)(params)), in_dims=(None, 0, 0))

    def train(members: MemberState, lesson: Lesson, draws: Draw) -> tuple[MemberState, Tensor]:
        leaves, tree = pytree.tree_flatten(draws)
        losses = []
        for parts in zip(*leaves, strict=True):
            members, loss = step(lesson, members, pytree.tree_unflatten(parts, tree))
            losses.append(loss)
        return members, torch.stack(losses)

    return Execution(gather=stack, scatter=_scatter, train=train)


def _scatter(members: MemberState) -> list[MemberState]:
    return unstack(members, len(members.memory))
