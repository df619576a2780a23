"""Elastic weight consolidation: parameters that mattered for earlier tasks are held near their old values by springs.

Sources: Kirkpatrick et al. 2017 (the penalty), Schwarz et al. 2018 (online form), Huszar 2018 (one penalty, not one per task).

F_i = mean over samples of (d log p(y; x, S(x)) / d theta_i)^2, at the final parameters of the task
online:   A <- decay A + F,  a <- theta
separate: A <- A + F,        a <- (A_old a_old + F theta) / A, where A > 0
penalty:  (strength / 2) sum_i s_i A_i (theta_i - a_i)^2,  s_i = min(1, cap / (eta0 strength A_i))

The sum of one quadratic per task equals the separate form plus a constant, so no task's copy is stored. The factor s is a
choice of contilab: a step on the penalty alone moves theta_i towards a_i by eta0 s_i strength A_i <= cap of its way, so a
large strength stiffens and never overshoots. Published results do not have it; set stiffness_cap = "off" to compare with them.
fisher = "batch" squares mean gradients of batches, as some codes do: about 1/b of the Fisher where gradients cancel.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from annotated_types import Ge, Le
from torch import Tensor

from contilab.spec.entry import Entry
from contilab.spec.fields import PER_MEMBER, Doc
from contilab.spec.sections import NotNegative
from contilab.strategies.contract import MASKED, Importance, Member, Params, Penalty, Strategy, TaskEnd
from contilab.strategies.naive import naive
from contilab.strategies.springs import Cap, bound_of, bounded, capped_share, pull, scaled, zeros

Fisher = Literal["empirical", "exact", "sampled", "batch"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a manifest may set of elastic weight consolidation."""

    strength: Annotated[NotNegative, Doc("weight of the penalty (lambda)"), PER_MEMBER] = 30.0
    decay: Annotated[
        float, Ge(0), Le(1), Doc("what the importance of earlier tasks keeps at each task end (gamma); online only"), PER_MEMBER
    ] = 1.0
    fisher_samples: Annotated[int, Ge(1), Doc("training samples of a task that its importance is a mean over, at most")] = 1024
    stiffness_cap: Cap = 1.0
    variant: Annotated[
        Literal["online", "separate"], Doc("online: anchored at the last task; separate: the sum of one penalty per task")
    ] = "online"
    fisher: Annotated[
        Fisher,
        Doc(
            "empirical: labels from the data; exact: all rows by their probability; sampled: labels from the model; "
            "batch: squares of gradients of training batches, of the wrong scale, for parity checks"
        ),
    ] = "empirical"

    def __post_init__(self) -> None:
        """Refuse a decay that nothing would read."""
        if self.variant == "separate" and self.decay != 1:
            raise ValueError(
                f'decay = {self.decay} has no meaning with variant = "separate", which keeps every task; leave it at 1'
            )


class EwcState(NamedTuple):
    """The springs of one member. *stiffness* is strength * s * A, kept because every step needs it."""

    strength: Tensor  # []
    decay: Tensor  # []
    bound: Tensor  # [] largest stiffness: cap / eta0, infinite without a cap
    importance: Params  # A
    stiffness: Params
    anchor: Params  # a
    last_penalty: Tensor  # [] penalty at the end of the last task, before its anchor moved


def ewc(settings: Settings) -> Strategy:
    """Return elastic weight consolidation.

    Two parameters, moved away from their anchor; the cap holds back the first one, whose s is 0.625:

    >>> strategy = ewc(Settings())
    >>> theta = {"w": torch.tensor([1.5, 0.0])}
    >>> state = strategy.init(theta, Member(values={"strength": 4.0, "decay": 1.0, "stiffness_cap": 1.0}, lr=0.2))
    >>> end = TaskEnd(params={"w": torch.tensor([1.0, -1.0])}, importance={"w": torch.tensor([2.0, 0.5])})
    >>> state = strategy.after_task(state, end)
    >>> strategy.penalty(state, theta).value
    tensor(1.6250)
    >>> strategy.notes(state)["ewc_capped_share"]
    0.5
    """
    plain = naive()

    def notes(state: EwcState) -> dict[str, float | str]:
        return {
            "ewc_fisher": settings.fisher,
            "ewc_capped_share": capped_share(_uncapped(state), state.bound),
            "ewc_penalty": float(state.last_penalty),
        }

    return Strategy(
        init=_init,
        loss=plain.loss,
        penalty=_penalty,
        importance=Importance(settings.fisher_samples, _TERMS[settings.fisher], "square", settings.fisher == "batch"),
        after_task=_after_task_online if settings.variant == "online" else _after_task_separate,
        notes=notes,
    )


def _init(params: Params, member: Member) -> EwcState:
    scalar = next(iter(params.values())).new_tensor
    return EwcState(
        strength=scalar(float(member.values["strength"])),
        decay=scalar(float(member.values["decay"])),
        bound=scalar(bound_of(member)),
        importance=zeros(params),
        stiffness=zeros(params),
        anchor=zeros(params),
        last_penalty=scalar(0.0),
    )


def _penalty(state: EwcState, params: Params) -> Penalty:
    return pull(state.stiffness, state.anchor, params)


def _after_task_online(state: EwcState, end: TaskEnd) -> EwcState:
    importance = {name: state.decay * old + fisher for name, old, fisher in _with_fisher(state, end)}
    # A copy: an engine that updates parameters in place must not move the anchor with them.
    return _tightened(state, end, importance, {name: theta.clone() for name, theta in end.params.items()})


def _after_task_separate(state: EwcState, end: TaskEnd) -> EwcState:
    importance, anchor = {}, {}
    for name, old, fisher in _with_fisher(state, end):
        total = old + fisher
        mean = (old * state.anchor[name] + fisher * end.params[name]) / torch.where(total > 0, total, 1.0)
        importance[name] = total
        anchor[name] = torch.where(total > 0, mean, 0.0)
    return _tightened(state, end, importance, anchor)


def _with_fisher(state: EwcState, end: TaskEnd) -> list[tuple[str, Tensor, Tensor]]:
    assert end.importance is not None, "ewc asks for an importance, so a task ends with one"  # noqa: S101 - a fault of ours
    return [(name, old, end.importance[name]) for name, old in state.importance.items()]


def _tightened(state: EwcState, end: TaskEnd, importance: Params, anchor: Params) -> EwcState:
    """Return *state* with new springs; strength * s * A is min(strength A, cap / eta0), which needs no division by A."""
    last_penalty = _penalty(state, end.params).value
    moved = state._replace(importance=importance, anchor=anchor, last_penalty=last_penalty)
    return moved._replace(stiffness=bounded(_uncapped(moved), state.bound))


def _uncapped(state: EwcState) -> Params:
    return scaled(state.importance, state.strength)


def _log_p(logits: Tensor, mask: Tensor) -> Tensor:
    return torch.log_softmax(torch.where(mask, logits, MASKED), dim=-1)


def _empirical(logits: Tensor, row: Tensor, mask: Tensor, _draw: Tensor) -> tuple[Tensor, Tensor]:
    value = _log_p(logits, mask).gather(-1, row[None])
    return value, torch.ones_like(value)


def _exact(logits: Tensor, _row: Tensor, mask: Tensor, _draw: Tensor) -> tuple[Tensor, Tensor]:
    values = _log_p(logits, mask)
    return values, values.detach().exp()


def _sampled(logits: Tensor, _row: Tensor, mask: Tensor, draw: Tensor) -> tuple[Tensor, Tensor]:
    cumulative = _log_p(logits.detach(), mask).exp().cumsum(-1)
    last = (mask * torch.arange(mask.shape[-1], device=mask.device)).amax(-1)
    # The sum of all probabilities may round to less than the draw: then it is the last allowed row.
    drawn = torch.minimum((cumulative <= draw).sum(-1), last)
    return _empirical(logits, drawn, mask, draw)


_TERMS = {"empirical": _empirical, "exact": _exact, "sampled": _sampled, "batch": _empirical}

ENTRY = Entry(
    make=ewc,
    settings=Settings,
    numerics="ewc/1",
    summary=(
        "Holds parameters that mattered for earlier tasks near their old values. "
        "At each task end the diagonal Fisher information, a mean of squared per-sample gradients, is added to the importance "
        "of every parameter; a quadratic penalty of that importance pulls towards the anchor. A cap keeps steps on the penalty "
        'from overshooting; switch it "off" to compare with published numbers.'
    ),
    paper="Kirkpatrick et al. 2017, Overcoming catastrophic forgetting in neural networks; Schwarz et al. 2018; Huszar 2018",
)
