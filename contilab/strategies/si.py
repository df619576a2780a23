"""Synaptic intelligence: parameters whose moves lowered the loss of earlier tasks are held near their old values.

Source: Zenke, Poole & Ganguli 2017, "Continual learning through synaptic intelligence", equations 3 to 5.

every step: omega <- omega - g (theta_new - theta_old), g the gradient of the data loss alone
task end:   Omega <- Omega + max(0, omega) / ((theta - theta_start)^2 + damping);  omega <- 0;  anchor and start <- theta
penalty:    strength sum_i Omega_i (theta_i - a_i)^2, without a factor 1/2

The clamp at 0 is a choice of contilab: a negative Omega would push a parameter away from its anchor. So is stiffness_cap, that
of ewc: without it a strength that is too large for the learning rate overshoots and diverges. Published results do not have it;
set it "off" to compare with them.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from torch import Tensor

from contilab.spec.entry import Entry
from contilab.spec.fields import PER_MEMBER, Doc
from contilab.spec.sections import NotNegative, Positive
from contilab.strategies.contract import Member, Params, Penalty, StepEnd, Strategy, TaskEnd
from contilab.strategies.naive import naive
from contilab.strategies.springs import Cap, bound_of, bounded, capped_share, pull, scaled, zeros


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a manifest may set of synaptic intelligence."""

    strength: Annotated[NotNegative, Doc("weight of the penalty (c)"), PER_MEMBER] = 1.0
    damping: Annotated[Positive, Doc("added to squared moves, so that still parameters get no importance (xi)"), PER_MEMBER] = (
        0.1
    )
    stiffness_cap: Cap = 1.0


class SiState(NamedTuple):
    """The springs of one member, *stiffness* being 2 * strength * Omega, and the path integral of the present task."""

    strength: Tensor  # []
    damping: Tensor  # []
    bound: Tensor  # [] largest stiffness
    path: Params  # omega
    importance: Params  # Omega
    stiffness: Params
    anchor: Params  # a, and where the present task began
    last_penalty: Tensor  # [] penalty at the end of the last task, before its anchor moved


def si(_settings: Settings) -> Strategy:
    """Return synaptic intelligence.

    Two steps with gradients -2 and -1 and moves 0.2 and 0.1 give omega 0.5 and, with damping 0.1, Omega 0.5 / 0.19:

    >>> import torch
    >>> strategy = si(Settings())
    >>> theta = [{"w": torch.tensor([at])} for at in (0.0, 0.2, 0.3)]
    >>> state = strategy.init(theta[0], Member({"strength": 1.0, "damping": 0.1, "stiffness_cap": "off"}, lr=0.1))
    >>> for before, after, slope in zip(theta, theta[1:], (-2.0, -1.0)):
    ...     state = strategy.after_step(state, StepEnd(before, after, {"w": torch.tensor([slope])}))
    >>> state = strategy.after_task(state, TaskEnd(theta[2], None))
    >>> state.importance["w"]
    tensor([2.6316])
    """
    return Strategy(
        init=_init, loss=naive().loss, penalty=_penalty, after_step=_after_step, after_task=_after_task, notes=_notes
    )


def _init(params: Params, member: Member) -> SiState:
    scalar = next(iter(params.values())).new_tensor
    return SiState(
        strength=scalar(float(member.values["strength"])),
        damping=scalar(float(member.values["damping"])),
        bound=scalar(bound_of(member)),
        path=zeros(params),
        importance=zeros(params),
        stiffness=zeros(params),
        anchor={name: theta.clone() for name, theta in params.items()},
        last_penalty=scalar(0.0),
    )


def _penalty(state: SiState, params: Params) -> Penalty:
    return pull(state.stiffness, state.anchor, params)


def _after_step(state: SiState, step: StepEnd) -> SiState:
    for name, omega in state.path.items():
        omega.add_(step.before[name].sub_(step.after[name]).mul_(step.grads[name]))
    return state


def _after_task(state: SiState, end: TaskEnd) -> SiState:
    importance = {
        name: total + state.path[name].clamp(min=0) / ((end.params[name] - state.anchor[name]).square() + state.damping)
        for name, total in state.importance.items()
    }
    moved = state._replace(
        path=zeros(state.path),
        importance=importance,
        anchor={name: theta.clone() for name, theta in end.params.items()},
        last_penalty=_penalty(state, end.params).value,
    )
    return moved._replace(stiffness=bounded(_uncapped(moved), state.bound))


def _uncapped(state: SiState) -> Params:
    return scaled(state.importance, 2 * state.strength)


def _notes(state: SiState) -> dict[str, float | str]:
    return {"si_capped_share": capped_share(_uncapped(state), state.bound), "si_penalty": float(state.last_penalty)}


ENTRY = Entry(
    make=si,
    settings=Settings,
    numerics="si/1",
    summary=(
        "Holds parameters near their old values by how much their moves lowered the loss. "
        "While a task is trained, each parameter sums up minus gradient times move; at the task's end that sum, divided by the "
        "squared distance it moved plus a damping, is added to its importance. A quadratic penalty of that importance pulls "
        "towards the values at the end of the last task. A cap keeps steps on the penalty from overshooting; switch it "
        '"off" to compare with published numbers.'
    ),
    paper="Zenke, Poole & Ganguli 2017, Continual learning through synaptic intelligence",
)
