"""Passes of stacked members through their model: logits of inputs, and gradients of parameters given those of logits."""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from contilab.engine.executions.layered import Layered, takes
from contilab.engine.executions.mixed import Mixed
from contilab.engine.executions.rounding import is_rounded
from contilab.engine.step import owned
from contilab.models.contract import Model, Params

JudgeOne = Callable[[Tensor], Tensor]  # logits [E, B, C] -> their gradients
Gradients = Callable[[Params, Tensor, JudgeOne], Params]  # (params, x [E, B, *shape], judge) -> those of all parameters


def by_hand(model: Model, params: Params, batch: int) -> Layered:
    """Return the passes of a batch of so many samples through *model*, a chain of linear layers, in its arithmetic."""
    return (Mixed if model.rounds and not is_rounded(model) else Layered)(model, params, batch)


def gradients_of(model: Model, params: Params) -> Gradients:
    """Return what finds gradients at the parameters *params*, which may be written meanwhile.

    By hand for chains of linear layers, by automatic differentiation for others. The gradients are alone in memory, and last
    until the next call.
    """
    return _by_hand(model, params) if takes(model, params) else _by_autograd(model)


def logits_of(model: Model, params: Params) -> Callable[[Tensor], Tensor]:
    """Return what finds the logits [E, B, C] of x [E, B, *shape] at *params*, which last until the next call."""
    if not takes(model, params):
        return lambda x: model.forward(params, {}, x).logits.detach()
    layered = _by_batch(model, params)
    return lambda x: layered(x.shape[1]).forward(x)


def _by_hand(model: Model, params: Params) -> Gradients:
    grads = {name: torch.empty_like(value) for name, value in params.items()}
    layered = _by_batch(model, params)

    def gradients(_params: Params, x: Tensor, judge: JudgeOne) -> Params:
        own = layered(x.shape[1])
        own.gradients(judge(own.forward(x)), grads)
        return grads

    return gradients


def _by_batch(model: Model, params: Params) -> Callable[[int], Layered]:
    """Return what holds the passes of each number of samples, made when it first comes."""
    return cache(lambda batch: by_hand(model, params, batch))


def _by_autograd(model: Model) -> Gradients:
    def gradients(params: Params, x: Tensor, judge: JudgeOne) -> Params:
        leaves = {name: value.detach().requires_grad_() for name, value in params.items()}
        with torch.enable_grad():
            logits = model.forward(leaves, {}, x).logits
        d = judge(logits.detach())
        found = torch.autograd.grad(logits, tuple(leaves.values()), d, allow_unused=True, materialize_grads=True)
        return owned(dict(zip(params, found, strict=True)))

    return gradients
