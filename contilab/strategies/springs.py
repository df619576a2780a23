"""Springs: the quadratic penalty that ewc, si and mas have in common, with its gradient.

sum_i k_i (theta_i - a_i)^2 / 2, gradient k_i (theta_i - a_i); k the stiffness, a the anchor.

A step of descent on the penalty alone moves theta_i towards a_i by eta0 k_i of its way, so stiffness of at most cap / eta0 with
a cap of 1 never overshoots, and is stable under momentum too. Published results do not have a cap.
"""

import math
from typing import Annotated, Literal

import torch
from torch import Tensor

from contilab.spec.fields import PER_MEMBER, Doc
from contilab.spec.sections import Positive
from contilab.strategies.contract import Member, Params, Penalty

Cap = Annotated[
    Positive | Literal["off"], Doc("bound on lr * stiffness of the penalty; off for published protocols"), PER_MEMBER
]


def pull(stiffness: Params, anchor: Params, params: Params) -> Penalty:
    """Return the penalty at *params*.

    >>> penalty = pull({"w": torch.tensor([8.0, 2.0])}, {"w": torch.tensor([1.0, -1.0])}, {"w": torch.tensor([1.5, 0.0])})
    >>> penalty.value, penalty.grads["w"]
    (tensor(2.), tensor([4., 2.]))
    """
    values, grads = [], {}
    for name, theta in params.items():
        distance = theta - anchor[name]
        grads[name] = stiffness[name] * distance
        # In one pass: a product and its sum take a quarter more of the penalty's time (eight MLPs 2x400, one Xeon core).
        values.append(torch.dot(grads[name].flatten(), distance.flatten()))
    return Penalty(torch.stack(values).sum() / 2, grads)


def bound_of(member: Member) -> float:
    """Return the largest stiffness of *member*: its cap by its base learning rate, infinite without a cap."""
    cap = member.values["stiffness_cap"]
    return math.inf if cap == "off" else float(cap) / member.lr


def scaled(importance: Params, factor: Tensor) -> Params:
    """Return the stiffness that no cap holds back: *factor* [] times the importance."""
    return {name: factor * total for name, total in importance.items()}


def bounded(wanted: Params, bound: Tensor) -> Params:
    """Return the stiffness *wanted*, of each parameter at most *bound* []."""
    return {name: torch.minimum(value, bound) for name, value in wanted.items()}


def capped_share(wanted: Params, bound: Tensor) -> float:
    """Return the share of parameters whose stiffness *wanted* is above *bound* []."""
    capped = sum(int((value > bound).sum()) for value in wanted.values())
    return capped / sum(value.numel() for value in wanted.values())


def zeros(params: Params) -> Params:
    """Return zeros of the shapes of *params*."""
    return {name: torch.zeros_like(theta) for name, theta in params.items()}
