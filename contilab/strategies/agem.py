"""Averaged gradient episodic memory: a step that would raise the mean loss of earlier tasks is turned until it does not.

Source: Chaudhry et al. 2019, "Efficient lifelong learning with A-GEM", equation 11. With g the gradient of the current batch
and r that of a reference batch, drawn from the entries of earlier tasks:

g <- g - (min(0, g.r) / r.r) r, unchanged where r.r < 1e-12

From the second task on. While memory has fewer entries of earlier tasks than the reference batch wants, all of them are used.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from contilab.spec.entry import Entry
from contilab.spec.fields import Doc
from contilab.strategies.contract import Params, Reference, State, Strategy
from contilab.strategies.naive import naive

SMALLEST = 1e-12  # a reference whose squared norm is below has no direction; chosen


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a manifest may set of averaged gradient episodic memory; size and policy of the memory stand in their own table."""

    reference: Annotated[int, Ge(1), Doc("entries of earlier tasks in the reference batch of each step")] = 256


def agem(settings: Settings) -> Strategy:
    """Return averaged gradient episodic memory.

    The gradient (1, -2) disagrees with the reference (1, 1); what is left of it is at a right angle to that:

    >>> strategy = agem(Settings())
    >>> strategy.project((), {"w": torch.tensor([1.0, -2.0])}, {"w": torch.tensor([[1.0, 1.0]])})
    {'w': tensor([ 1.5000, -1.5000])}
    """
    return naive()._replace(reference=Reference(settings.reference), project=_project)


def _project(_state: State, grads: Params, references: Params) -> Params:
    reference = {name: each[0] for name, each in references.items()}
    along, length = dot(reference, grads), dot(reference, reference)
    factor = torch.where(length < SMALLEST, 0.0, along.clamp(max=0) / length.clamp(min=SMALLEST))
    return {name: torch.addcmul(grad, factor, reference[name], value=-1) for name, grad in grads.items()}


def dot(some: Params, others: Params) -> Tensor:
    """Return the scalar product [] of two sets of parameters."""
    return torch.stack([torch.dot(value.flatten(), others[name].flatten()) for name, value in some.items()]).sum()


ENTRY = Entry(
    make=agem,
    settings=Settings,
    numerics="agem/1",
    summary=(
        "Turns gradients that would raise the mean loss of earlier tasks. "
        "In each step the gradient of a reference batch from memory is found; where the gradient of the current batch points "
        "against it, its part along the reference is taken away. Replayed samples are not trained on."
    ),
    paper="Chaudhry et al. 2019, Efficient lifelong learning with A-GEM",
    uses_memory=True,
)
