"""All members in one call: the gradient of the step under vmap, their tensors stacked; what is made of it is in `moving`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.func import grad_and_value

from contilab.engine.draws import Draw, unbind
from contilab.engine.ensemble import MemberState, stack, unstack
from contilab.engine.executions.contract import Execution
from contilab.engine.executions.moving import mover
from contilab.engine.step import Learner, Lesson, make_learn, owned
from contilab.models.contract import Params


def vmap(learner: Learner) -> Execution:
    """Return the vmapped execution."""
    learn = torch.func.vmap(make_learn(learner, gradient), in_dims=(None, 0, 0))
    move = mover(learner)

    def train(members: MemberState, lesson: Lesson, draws: Draw) -> tuple[MemberState, Tensor]:
        losses = []
        for draw in unbind(draws):
            learned = learn(lesson, members, draw)
            members, penalty = move(lesson, members, learned._replace(grads=owned(learned.grads)), draw)
            losses.append(learned.loss + penalty)
        return members, torch.stack(losses)

    return Execution(gather=stack, scatter=_scatter, train=train)


def gradient(function: Callable[[Params], tuple[Tensor, Any]], params: Params) -> tuple[Params, tuple[Tensor, Any]]:
    """Return the gradients of *function* at *params*, its value, and what it returns beside it; goes through vmap."""
    return grad_and_value(function, has_aux=True)(params)


def _scatter(members: MemberState) -> list[MemberState]:
    return unstack(members, len(members.stored))
