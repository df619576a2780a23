"""Gradient episodic memory: a step that would raise the loss of some earlier task is turned until it raises none.

Source: Lopez-Paz & Ranzato 2017, "Gradient episodic memory for continual learning", the dual problem. With g the gradient of
the current batch and the rows g_k of G those of all entries of each earlier task, if some g.g_k < 0:

v* = argmin_v 1/2 v^T (G G^T + eps I) v + (G g)^T v with v >= margin,  g <- g + G^T v*

eps is 1e-6 times the mean diagonal of G G^T: an absolute number, 1e-3 in common code, swamps small gradients. A task without
entries has no gradient and constrains nothing. It differs from A-GEM in two ways, each with a switch: one constraint per task
(constraints = "mean": one for the mean of their gradients), and the margin. Memory is a ring per task.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor

from contilab.spec.entry import Entry
from contilab.spec.fields import PER_MEMBER, Doc
from contilab.spec.sections import NotNegative
from contilab.strategies.contract import Member, Params, Reference, Strategy
from contilab.strategies.naive import naive
from contilab.strategies.nonnegative import argmin_nonnegative

RIDGE = 1e-6  # eps, relative to the mean diagonal; chosen


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a manifest may set of gradient episodic memory; the size of the memory stands in its own table."""

    margin: Annotated[NotNegative, Doc("smallest weight of each constraint: above 0 favours earlier tasks"), PER_MEMBER] = 0.5
    constraints: Annotated[
        Literal["tasks", "mean"], Doc("tasks: no earlier task may get worse; mean: their mean may not, as in agem")
    ] = "tasks"


class GemState(NamedTuple):
    """The margin of one member."""

    margin: Tensor  # []


def gem(settings: Settings) -> Strategy:
    """Return gradient episodic memory.

    The gradient (1, -2) would raise the losses of both earlier tasks, (1, 1) and (0, 1); without a margin the second decides:

    >>> strategy = gem(Settings())
    >>> g, tasks = {"w": torch.tensor([1.0, -2.0])}, {"w": torch.tensor([[1.0, 1.0], [0.0, 1.0]])}
    >>> for margin in (0.0, 0.5):
    ...     state = strategy.init(g, Member({"margin": margin}, lr=0.1))
    ...     print([round(value, 4) for value in strategy.project(state, g, tasks)["w"].tolist()])
    [1.0, -0.0]
    [1.5, -0.0]
    """
    project = _project if settings.constraints == "tasks" else _project_by_mean
    return Strategy(init=_init, loss=naive().loss, reference=Reference(None), project=project)


def _init(params: Params, member: Member) -> GemState:
    return GemState(next(iter(params.values())).new_tensor(float(member.values["margin"])))


def _project(state: GemState, grads: Params, references: Params) -> Params:
    rows = {name: reference.flatten(1) for name, reference in references.items()}
    gram = torch.stack([row @ row.T for row in rows.values()]).double().sum(0)
    along = torch.stack([rows[name] @ grad.flatten() for name, grad in grads.items()]).double().sum(0)
    weight = torch.where((along < 0).any(), multipliers(gram, along, state.margin.double()), 0.0)
    return {
        name: grad + (weight.to(grad.dtype) @ rows[name]).reshape(grad.shape)  # v is as large as a few; g has its own scale
        for name, grad in grads.items()
    }


def _project_by_mean(state: GemState, grads: Params, references: Params) -> Params:
    some = torch.stack([reference.flatten(1).any(1) for reference in references.values()]).any(0)
    weight = some / some.sum().clamp(min=1)  # of tasks with entries
    means = {name: torch.tensordot(weight.to(each.dtype), each, 1)[None] for name, each in references.items()}
    return _project(state, grads, means)


def multipliers(gram: Tensor, along: Tensor, margin: Tensor) -> Tensor:
    """Return v* [K] of G G^T (*gram*) [K, K], G g (*along*) [K] and *margin* [], float64.

    >>> gram, along = torch.tensor([[2.0, 1.0], [1.0, 1.0]]).double(), torch.tensor([-1.0, -2.0]).double()
    >>> [round(value, 5) for value in multipliers(gram, along, torch.tensor(0.5).double()).tolist()]
    [0.5, 1.5]
    """
    diagonal = gram.diagonal()
    eps = RIDGE * diagonal.sum() / (diagonal > 0).sum().clamp(min=1)
    ridged = gram + eps * torch.diag_embed((diagonal > 0).to(gram.dtype))
    return margin + argmin_nonnegative(ridged, along + ridged.sum(1) * margin)


ENTRY = Entry(
    make=gem,
    settings=Settings,
    numerics="gem/1",
    summary=(
        "Turns gradients so that the loss of no earlier task rises. "
        "In each step one gradient per earlier task is found over all of its entries in memory; where the gradient of the "
        "current batch points against some of them, a quadratic problem gives the nearest one that points against none, and a "
        "margin favours earlier tasks beyond that. Memory keeps the last samples of each task, equally many of each."
    ),
    paper="Lopez-Paz & Ranzato 2017, Gradient episodic memory for continual learning",
    uses_memory=True,
    memory={"policy": ("ring",)},
)
