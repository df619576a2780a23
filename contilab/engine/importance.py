"""Importances of parameters: means over samples of squared or absolute per-sample gradients, at the end of a task.

mean_n sum_k weight_k(n) * reduce(d value_k(n) / d theta), reduce = square or abs; of a batch gradient only where a request
says so, for parity with codes that have it so.

A per-sample gradient is as large as the model, so writing 1,024 of them down costs far more than finding them. Where every
parameter is the weight or bias of one linear layer they need not be written down: with layer input x and gradient d at its
output the sample's gradient is d x^T, both reductions pass through the product, and the sum over samples and terms is
(sum_k weight_k reduce(d_k))^T reduce(x). Every other model takes the long way, per-sample gradients under vmap.

Shapes: N samples, K terms, C head rows, O and I outputs and inputs of a layer.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import jacrev, vmap
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from contilab.models.contract import Model, Params
from contilab.strategies.contract import Importance

CHUNK_SAMPLES = 256  # samples per forward pass; chosen
CHUNK_BYTES = 256 * 2**20  # per-sample gradients held at a time; chosen

Reduce = Callable[[Tensor], Tensor]
REDUCTIONS: dict[str, Reduce] = {"square": torch.square, "abs": torch.abs}


class Samples(NamedTuple):
    """The samples that an importance is a mean over."""

    inputs: Tensor  # [N, *shape]
    row: Tensor  # [N] int64
    mask: Tensor  # [N, C] bool
    uniform: Tensor  # [N] in [0, 1), one per sample


def importance(
    model: Model, params: Params, request: Importance, samples: Samples, *, batch: int = 1, chunk: int = CHUNK_SAMPLES
) -> Params:
    """Return the importance of each parameter: the mean over *samples* that *request* asks for.

    *batch*: how many samples make one gradient if the request is of batches; the last batch may be smaller, and counts as much.
    *chunk* samples are worked on at a time otherwise; it changes rounding only.
    """
    parts = list(_parts(samples, batch if request.of_batches else chunk))
    sums = _of_batch if request.of_batches else _sums
    total = {name: torch.zeros_like(value) for name, value in params.items()}
    for part in parts:
        for name, value in sums(model, params, request, part).items():
            total[name] += value
    count = len(parts) if request.of_batches else len(samples.row)
    return {name: value / count for name, value in total.items()}


def _of_batch(model: Model, params: Params, request: Importance, samples: Samples) -> Params:
    """Return the reduced gradient of the mean over *samples*."""
    leaves = {name: value.detach().requires_grad_() for name, value in params.items()}
    with torch.enable_grad():
        logits = model.forward(leaves, {}, samples.inputs).logits
        values, weights = vmap(request.terms)(logits, samples.row, samples.mask, samples.uniform)  # [N, K] each
        mean = (values * weights.detach()).sum() / len(samples.row)
    grads = torch.autograd.grad(mean, tuple(leaves.values()))
    return {name: REDUCTIONS[request.reduce](value) for name, value in zip(leaves, grads, strict=True)}


def _sums(model: Model, params: Params, request: Importance, samples: Samples) -> Params:
    """Return the sums over *samples*, by linear layers where the model is made of nothing else."""
    leaves = {name: value.detach().requires_grad_() for name, value in params.items()}
    with torch.enable_grad():
        with _LinearLayers(leaves) as layers:
            logits = model.forward(leaves, {}, samples.inputs).logits
        values, weights = vmap(request.terms)(logits, samples.row, samples.mask, samples.uniform)  # [N, K] each
    if layers.cover(leaves, count=len(samples.row)):
        return _sums_by_layer(layers.seen, values, weights.detach(), REDUCTIONS[request.reduce])
    bytes_per_sample = values.shape[1] * sum(value.numel() * value.element_size() for value in params.values())
    size = max(1, CHUNK_BYTES // (4 * bytes_per_sample))  # 4: gradients, their reductions, and what autograd keeps
    total: Params = {}
    for part in _parts(samples, size):
        _add(total, _sums_by_sample(model, params, request, part))
    return total


class _Layer(NamedTuple):
    weight: str
    bias: str
    inputs: Tensor  # [N, I]
    outputs: Tensor  # [N, O]


class _LinearLayers(TorchFunctionMode):
    """Notes the linear layers of a forward pass by the names of their parameters, and whether anything else reads those."""

    def __init__(self, params: Params) -> None:
        super().__init__()
        self.names = {id(value): name for name, value in params.items()}
        self.seen: list[_Layer] = []
        self.is_alone = True

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func is torch.nn.functional.linear:
            inputs, weight, bias = (*args, *kwargs.values(), None)[:3]
            self.seen.append(_Layer(self._name(weight), self._name(bias), inputs, out))
        elif isinstance(out, Tensor) and any(self._name(leaf) for leaf in pytree.tree_leaves((args, kwargs))):
            self.is_alone = False
        return out

    def cover(self, params: Params, *, count: int) -> bool:
        """Tell whether each parameter is read by one layer and nothing else, and each layer had one row per sample."""
        used = [name for layer in self.seen for name in (layer.weight, layer.bias) if name]
        one_row_each = all(layer.inputs.shape[:-1] == (count,) for layer in self.seen)
        return self.is_alone and one_row_each and sorted(used) == sorted(params)

    def _name(self, value: Any) -> str:
        return self.names.get(id(value), "")


def _sums_by_layer(layers: list[_Layer], values: Tensor, weights: Tensor, reduce: Reduce) -> Params:
    strengths: list[Tensor] = []  # [N, O] by layer; terms are summed first, so each layer has one product whatever their number
    for term in range(values.shape[1]):
        deltas = torch.autograd.grad(values[:, term].sum(), [layer.outputs for layer in layers], retain_graph=True)
        found = [weights[:, term, None] * reduce(delta) for delta in deltas]
        strengths = [total.add_(one) for total, one in zip(strengths, found, strict=True)] if strengths else found
    weights_of = {layer.weight: one.T @ reduce(layer.inputs.detach()) for layer, one in zip(layers, strengths, strict=True)}
    return weights_of | {layer.bias: one.sum(0) for layer, one in zip(layers, strengths, strict=True) if layer.bias}


def _sums_by_sample(model: Model, params: Params, request: Importance, samples: Samples) -> Params:
    reduce = REDUCTIONS[request.reduce]

    def terms(params: Params, x: Tensor, row: Tensor, mask: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        return request.terms(model.forward(params, {}, x[None]).logits[0], row, mask, uniform)

    gradients = vmap(jacrev(terms, has_aux=True), in_dims=(None, 0, 0, 0, 0))
    by_sample, weights = gradients(params, *samples)  # [N, K, *shape] by name, [N, K]
    return {name: torch.einsum("nk...,nk->...", reduce(value), weights) for name, value in by_sample.items()}


def _parts(samples: Samples, size: int) -> Iterator[Samples]:
    return (Samples(*part) for part in zip(*(torch.split(values, size) for values in samples), strict=True))


def _add(total: Params, values: Params) -> None:
    for name, value in values.items():
        total[name] = total[name] + value if name in total else value
