"""Stochastic gradient descent with momentum, Nesterov momentum and weight decay: the steps of torch.optim.SGD.

g <- g + weight_decay theta;  v <- momentum v + g;  d = v (Nesterov: g + momentum v);  theta <- theta - lr d

The learning rate and the weight decay are taken per member. Momentum is fixed, and runs without decay are trained apart from
those with some, so that a run without them pays nothing for them: decay by a per-member 0 would lengthen the step of eight MLPs
2x400 at batch 32 by 35 % (12 to 16 ms, one Xeon core).
Parameters and velocity are written in place, which saves a tenth to a third of that step.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from annotated_types import Ge, Lt
from torch import Tensor, zeros_like

from contilab.optim.contract import Fold, Optimiser, Params
from contilab.spec.entry import Entry
from contilab.spec.fields import PER_MEMBER, PER_MEMBER_UNLESS_ZERO, Doc
from contilab.spec.sections import NotNegative, Positive


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a manifest may set of stochastic gradient descent."""

    lr: Annotated[Positive, Doc("learning rate"), PER_MEMBER] = 0.1
    momentum: Annotated[float, Ge(0), Lt(1), Doc("share of the velocity that each step keeps")] = 0.0
    nesterov: Annotated[bool, Doc("look ahead along the velocity; needs momentum")] = False
    weight_decay: Annotated[
        NotNegative, Doc("factor of the parameters that is added to the gradient"), PER_MEMBER_UNLESS_ZERO
    ] = 0.0
    clip_norm: Annotated[Positive | Literal["off"], Doc("largest norm of a member's gradient; longer ones are scaled")] = "off"

    def __post_init__(self) -> None:
        """Refuse Nesterov momentum without momentum, which would be plain descent under another name."""
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov = true needs momentum above 0, and momentum is 0")


class SgdState(NamedTuple):
    """The learning rate, the weight decay and, with momentum, the velocity of one member."""

    lr: Tensor  # []
    decay: Tensor  # [], 0 for all members or for none
    velocity: Params  # empty without momentum


def sgd(settings: Settings) -> Optimiser:
    """Return stochastic gradient descent.

    >>> import torch
    >>> descent = sgd(Settings(momentum=0.5))
    >>> theta = {"w": torch.tensor(1.0)}
    >>> theta, state = descent.update(theta, {"w": torch.tensor(2.0)}, descent.init(theta, {"lr": 0.25, "weight_decay": 0}))
    >>> theta, state = descent.update(theta, {"w": torch.tensor(2.0)}, state)
    >>> float(theta["w"])  # 1 - 0.25 * 2 - 0.25 * (0.5 * 2 + 2)
    -0.25
    """
    decays = settings.weight_decay > 0

    def init(params: Params, values: Mapping[str, float]) -> SgdState:
        lr, decay = (next(iter(params.values())).new_tensor(values[name]) for name in ("lr", "weight_decay"))
        velocity = {name: zeros_like(theta) for name, theta in params.items()} if settings.momentum else {}
        return SgdState(lr, decay, velocity)

    def update(params: Params, grads: Params, state: SgdState) -> tuple[Params, SgdState]:
        for name, theta in params.items():
            step = grads[name].add_(state.decay * theta) if decays else grads[name]
            if settings.momentum:
                velocity = state.velocity[name].mul_(settings.momentum).add_(step)
                step = step.add_(settings.momentum * velocity) if settings.nesterov else step.copy_(velocity)
            # The product first: alpha of sub_ would fuse both and give other bits. In place: a new tensor costs a third of the
            # step of one MLP 2x400 at batch 32.
            theta.sub_(step.mul_(state.lr))
        return params, state

    def fold(params: Params, state: SgdState) -> Fold:
        decay, momentum = state.decay, settings.momentum
        if not momentum:
            return Fold(params, keep=1 - decay * state.lr if decays else None, rate=-state.lr)
        # Nesterov: g + momentum v = (1 + momentum) v - momentum v_old, and v_old is still there before the product. What it
        # moves theta by is taken back from the decay, which is that of the old theta.
        ahead = state.lr * momentum if settings.nesterov else None
        return Fold(
            state.velocity,
            keep=momentum if ahead is None or not decays else momentum - decay * ahead,
            rate=1.0,
            ahead=ahead,
            pull=decay if decays else None,
            behind=-state.lr if ahead is None else -state.lr - ahead,
        )

    clip_norm = None if settings.clip_norm == "off" else settings.clip_norm
    return Optimiser(init=init, update=update, clip_norm=clip_norm, fold=fold)


ENTRY = Entry(
    make=sgd,
    settings=Settings,
    numerics="sgd/1",
    summary="Stochastic gradient descent. With momentum, Nesterov momentum and weight decay; the steps of torch.optim.SGD.",
)
