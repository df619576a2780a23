"""Adam: steps scaled by running means of the gradient and of its square: the steps of torch.optim.Adam.

Source: Kingma & Ba 2015. With step t from 1 and g <- g + weight_decay theta:

m <- beta1 m + (1 - beta1) g;  v <- beta2 v + (1 - beta2) g^2
theta <- theta - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)

Only the learning rate is taken per member, and tensors are written in place, as in `sgd`. A member alone is moved by torch's
fused kernel: 0.37 ms instead of 1.77 ms for an MLP 2x400 (one Xeon core). Stacked members take one call of it where their
rates and steps are one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from annotated_types import Ge, Lt
from torch import Tensor
from torch.optim.adam import adam as fused
from torch.utils import _pytree as pytree

from contilab.optim.contract import Optimiser, Params
from contilab.spec.entry import Entry
from contilab.spec.fields import PER_MEMBER, PER_MEMBER_UNLESS_ZERO, Doc
from contilab.spec.sections import NotNegative, Positive


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a manifest may set of Adam."""

    lr: Annotated[Positive, Doc("learning rate"), PER_MEMBER] = 0.001
    beta1: Annotated[float, Ge(0), Lt(1), Doc("share of the mean gradient that each step keeps")] = 0.9
    beta2: Annotated[float, Ge(0), Lt(1), Doc("share of the mean squared gradient that each step keeps")] = 0.999
    eps: Annotated[Positive, Doc("added to the root of the mean square")] = 1e-8
    weight_decay: Annotated[
        NotNegative, Doc("factor of the parameters that is added to the gradient"), PER_MEMBER_UNLESS_ZERO
    ] = 0.0
    clip_norm: Annotated[Positive | Literal["off"], Doc("largest norm of a member's gradient; longer ones are scaled")] = "off"


class AdamState(NamedTuple):
    """Learning rate, weight decay, step count and running means of one member."""

    lr: Tensor  # []
    decay: Tensor  # [], 0 for all members or for none
    step: Tensor  # [] int64
    mean: Params
    square: Params


def adam(settings: Settings) -> Optimiser:
    """Return Adam.

    The first step has the length of the learning rate, whatever the gradient:

    >>> descent = adam(Settings())
    >>> theta, gradient = {"w": torch.tensor(1.0)}, {"w": torch.tensor(200.0)}
    >>> theta, state = descent.update(theta, gradient, descent.init(theta, {"lr": 0.25, "weight_decay": 0}))
    >>> float(theta["w"])
    0.75
    """
    beta1, beta2 = settings.beta1, settings.beta2

    def update(params: Params, grads: Params, state: AdamState) -> tuple[Params, AdamState]:
        step = state.step + 1
        mean_share, square_share = (_filled(beta, step, like=state.lr) for beta in (beta1, beta2))
        for name, theta in params.items():
            grad = grads[name] + state.decay * theta if settings.weight_decay else grads[name]
            mean = state.mean[name].mul_(beta1).add_((1 - beta1) * grad)
            square = state.square[name].mul_(beta2).add_((1 - beta2) * (grad * grad))
            scale = square.sqrt() / square_share.sqrt() + settings.eps
            theta.sub_(state.lr / mean_share * (mean / scale))
        return params, state._replace(step=step)

    def alone(params: Params, grads: Params, state: AdamState) -> tuple[Params, AdamState]:
        decay = 0.0
        if settings.weight_decay and state.decay.is_cpu:
            decay = state.decay.item()
        elif settings.weight_decay:  # to ask for the number would wait for the device in each step
            grads = {name: torch.addcmul(grads[name], theta, state.decay) for name, theta in params.items()}
        steps = state.step.to(torch.float32).expand(len(params)).clone().unbind()  # torch counts each of them up
        fused(
            list(params.values()),
            [_laid_like(grads[name], theta) for name, theta in params.items()],
            list(state.mean.values()),
            list(state.square.values()),
            [],
            list(steps),
            fused=True,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=state.lr,
            weight_decay=decay,
            eps=settings.eps,
            maximize=False,
        )
        return params, state._replace(step=state.step + 1)

    def stacked(params: Params, grads: Params, state: AdamState) -> tuple[Params, AdamState]:
        told = (state.lr, state.decay, state.step)
        if all(bool((value == value[0]).all()) for value in told):
            alone(params, grads, state._replace(lr=state.lr[0], decay=state.decay[0], step=state.step[0]))
        else:
            for member in range(len(state.step)):
                alone(*(pytree.tree_map(lambda leaf, member=member: leaf[member], tree) for tree in (params, grads, state)))
        return params, state._replace(step=state.step + 1)

    clip_norm = None if settings.clip_norm == "off" else settings.clip_norm
    return Optimiser(init=_init, update=update, clip_norm=clip_norm, alone=alone, stacked=stacked)


def _init(params: Params, values: Mapping[str, float]) -> AdamState:
    first = next(iter(params.values()))
    return AdamState(
        lr=first.new_tensor(values["lr"]),
        decay=first.new_tensor(values["weight_decay"]),
        step=torch.zeros((), dtype=torch.int64, device=first.device),
        mean={name: torch.zeros_like(theta) for name, theta in params.items()},
        square={name: torch.zeros_like(theta) for name, theta in params.items()},
    )


def _laid_like(grad: Tensor, theta: Tensor) -> Tensor:
    """Return *grad* as *theta* lies in memory: the fused kernel walks both as they lie."""
    return grad if grad.stride() == theta.stride() else torch.empty_like(theta).copy_(grad)


def _filled(beta: float, step: Tensor, *, like: Tensor) -> Tensor:
    """Return 1 - beta^step, the share of a running mean that is filled, in the type of *like*.

    By expm1: in float32 1 - 0.999^t has a relative error of 1e-5 at the first step, and the step with it.
    """
    return -torch.expm1(step.to(like.dtype) * (math.log(beta) if beta else -math.inf))


ENTRY = Entry(
    make=adam,
    settings=Settings,
    numerics="adam/2",
    summary=(
        "Adam scales steps by running means of the gradient and of its square. "
        "Weight decay is added to the gradient; the steps of torch.optim.Adam."
    ),
    paper="Kingma & Ba 2015, Adam: a method for stochastic optimization",
)
