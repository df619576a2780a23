"""Memory-aware synapses: parameters that the outputs react to are held near their old values.

Source: Aljundi et al. 2018, "Memory aware synapses: learning what (not) to forget", equations 2 to 4, their l2 form.

Omega_t,i = mean over samples of abs(d / d theta_i of sum_{k in S(x)} f_k(x)^2), at the final parameters of the task
Omega     <- Omega + Omega_t, or blend Omega + (1 - blend) Omega_t
penalty:    strength sum_i Omega_i (theta_i - a_i)^2, without a factor 1/2

f are raw logits, of the rows that compete in S(x) only: masked ones would be -1e9, and their squares would be all there is. The
absolute value is taken per sample. stiffness_cap is that of ewc, a choice of contilab: squared norms have no bound, and without
it even the default strength diverges on class-incremental Split Digits. Published results do not have it; set it "off" to
compare with them.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from annotated_types import Ge, Lt
from torch import Tensor

from contilab.spec.entry import Entry
from contilab.spec.fields import PER_MEMBER, Doc
from contilab.spec.sections import NotNegative
from contilab.strategies.contract import Importance, Member, Params, Penalty, Strategy, TaskEnd
from contilab.strategies.naive import naive
from contilab.strategies.springs import Cap, bound_of, bounded, capped_share, pull, scaled, zeros


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a manifest may set of memory-aware synapses."""

    strength: Annotated[NotNegative, Doc("weight of the penalty (lambda)"), PER_MEMBER] = 1.0
    samples: Annotated[int, Ge(1), Doc("training samples of a task that its importance is a mean over, at most")] = 1024
    blend: Annotated[
        Annotated[float, Ge(0), Lt(1)] | Literal["off"],
        Doc("share that the importance of earlier tasks keeps, the new task has the rest; off: they are added up"),
        PER_MEMBER,
    ] = "off"
    stiffness_cap: Cap = 1.0


class MasState(NamedTuple):
    """The springs of one member. *stiffness* is 2 * strength * Omega, at most bound."""

    strength: Tensor  # []
    old: Tensor  # [] factor of the importance so far
    new: Tensor  # [] factor of that of the task that ends
    bound: Tensor  # [] largest stiffness
    importance: Params  # Omega
    stiffness: Params
    anchor: Params  # a
    last_penalty: Tensor  # [] penalty at the end of the last task, before its anchor moved


def mas(settings: Settings) -> Strategy:
    """Return memory-aware synapses.

    Raw logits (3, -1, 5) of which the first two compete: the squared norm is 10, whatever the third one is:

    >>> strategy = mas(Settings())
    >>> mask = torch.tensor([True, True, False])
    >>> strategy.importance.terms(torch.tensor([3.0, -1.0, 5.0]), torch.tensor(0), mask, torch.tensor(0.0))[0]
    tensor([10.])
    """
    return Strategy(
        init=_init,
        loss=naive().loss,
        penalty=_penalty,
        importance=Importance(settings.samples, _squared_norm, "abs"),
        after_task=_after_task,
        notes=_notes,
    )


def _init(params: Params, member: Member) -> MasState:
    scalar = next(iter(params.values())).new_tensor
    blend = member.values["blend"]
    old, new = (1.0, 1.0) if blend == "off" else (float(blend), 1 - float(blend))
    return MasState(
        strength=scalar(float(member.values["strength"])),
        old=scalar(old),
        new=scalar(new),
        bound=scalar(bound_of(member)),
        importance=zeros(params),
        stiffness=zeros(params),
        anchor=zeros(params),
        last_penalty=scalar(0.0),
    )


def _squared_norm(logits: Tensor, _row: Tensor, mask: Tensor, _draw: Tensor) -> tuple[Tensor, Tensor]:
    value = torch.where(mask, logits, 0.0).square().sum(-1, keepdim=True)
    return value, torch.ones_like(value)


def _penalty(state: MasState, params: Params) -> Penalty:
    return pull(state.stiffness, state.anchor, params)


def _after_task(state: MasState, end: TaskEnd) -> MasState:
    assert end.importance is not None, "mas asks for an importance, so a task ends with one"  # noqa: S101 - a fault of ours
    moved = state._replace(
        importance={name: state.old * total + state.new * end.importance[name] for name, total in state.importance.items()},
        anchor={name: theta.clone() for name, theta in end.params.items()},
        last_penalty=_penalty(state, end.params).value,
    )
    return moved._replace(stiffness=bounded(_uncapped(moved), state.bound))


def _uncapped(state: MasState) -> Params:
    return scaled(state.importance, 2 * state.strength)


def _notes(state: MasState) -> dict[str, float | str]:
    return {"mas_capped_share": capped_share(_uncapped(state), state.bound), "mas_penalty": float(state.last_penalty)}


ENTRY = Entry(
    make=mas,
    settings=Settings,
    numerics="mas/1",
    summary=(
        "Holds parameters that the outputs react to near their old values. "
        "At each task end the mean over samples of the absolute gradient of the squared norm of the logits is added to the "
        "importance of every parameter, which needs no labels; a quadratic penalty of that importance pulls towards the values "
        "at the end of the last task. A cap keeps steps on the penalty from overshooting; switch it "
        '"off" to compare with published numbers.'
    ),
    paper="Aljundi et al. 2018, Memory aware synapses: learning what (not) to forget",
)
