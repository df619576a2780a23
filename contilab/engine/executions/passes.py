"""Passes of stacked members through their model: logits of inputs, and gradients of parameters given those of logits."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from contilab.engine.executions.layered import Layered
from contilab.engine.step import owned
from contilab.models.contract import Model, Params

Judge = Callable[[Tensor], Tensor]  # logits [E, B, C] -> their gradients, of the same shape


class Passes(NamedTuple):
    """gradients(params, x, judge) -> gradients of all parameters, alone in memory, valid until the next call.

    *layered*: the same for chains of linear layers, as passes that can be taken one by one.
    """

    gradients: Callable[[Params, Tensor, Judge], Params]
    layered: Layered | None


def passes_of(model: Model) -> Passes:
    """Return the passes of *model*: by hand for chains of linear layers, by automatic differentiation for others."""
    if model.chain:
        layered = Layered(model.chain)

        def by_hand(params: Params, x: Tensor, judge: Judge) -> Params:
            logits = layered.forward(params, x)
            return layered.gradients(params, judge(logits))

        return Passes(by_hand, layered)

    def by_autograd(params: Params, x: Tensor, judge: Judge) -> Params:
        leaves = {name: value.detach().requires_grad_() for name, value in params.items()}
        with torch.enable_grad():
            logits = model.forward(leaves, {}, x).logits
        found = torch.autograd.grad(
            logits, tuple(leaves.values()), judge(logits.detach()), allow_unused=True, materialize_grads=True
        )
        return owned(dict(zip(params, found, strict=True)))

    return Passes(by_autograd, None)
