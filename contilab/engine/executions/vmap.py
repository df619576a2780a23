"""All members in one call: the gradient of the step under vmap, their tensors stacked.

Only the gradient gains from it. On a CPU the elementwise rest is bound by memory, and one member's tensors fit into a cache
where those of all do not, so each member is moved alone, in place, on its slice of the stack (ewc with eight MLPs 2x400: 8,300
samples per CPU second instead of 6,100). On a GPU, where each call costs more than its arithmetic, the rest is vmapped too.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.func import grad_and_value
from torch.utils import _pytree as pytree

from contilab.engine.draws import Draw, unbind
from contilab.engine.ensemble import MemberState, stack, unstack
from contilab.engine.executions.contract import Execution
from contilab.engine.step import Learned, Learner, Lesson, Move, make_learn, make_move, owned
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


def mover(learner: Learner) -> Move:
    """Return the second half of a step for stacked members, in the form that is fast on their device; it writes into them."""
    alone = one_by_one(make_move(learner, is_alone=True))
    together = torch.func.vmap(make_move(learner), in_dims=(None, 0, 0, 0))

    def move(lesson: Lesson, members: MemberState, learned: Learned, draw: Draw) -> tuple[MemberState, Tensor]:
        if not members.stored.is_cuda:
            return alone(lesson, members, learned, draw)
        moved, penalty = together(lesson, members, learned, draw)
        _write(members, moved)
        return members, penalty

    return move


def one_by_one(move: Move) -> Move:
    """Return *move* for stacked members: one after the other, each written into its slices."""

    def moves(lesson: Lesson, members: MemberState, learned: Learned, draw: Draw) -> tuple[MemberState, Tensor]:
        count = len(members.stored)
        penalties = []
        for member, own, part in zip(unstack(members, count), unstack(learned, count), unbind(draw), strict=True):
            moved, penalty = move(lesson, member, own, part)
            _write(member, moved)
            penalties.append(penalty)
        return members, torch.stack(penalties)

    return moves


def gradient(function: Callable[[Params], tuple[Tensor, Any]], params: Params) -> tuple[Params, tuple[Tensor, Any]]:
    """Return the gradients of *function* at *params*, its value, and what it returns beside it; goes through vmap."""
    return grad_and_value(function, has_aux=True)(params)


def _write(views: MemberState, moved: MemberState) -> None:
    """Write into *views* what a step gave back as new tensors; most optimisers write into the views themselves."""
    old: list[Any] = pytree.tree_leaves(views)
    for view, new in zip(old, pytree.tree_leaves(moved), strict=True):
        if new is not view:
            view.copy_(new)


def _scatter(members: MemberState) -> list[MemberState]:
    return unstack(members, len(members.stored))
