"""Chains of linear layers in mixed precision: products of bf16 tensors; parameters, activations and sums of gradients in fp32.

For processors that multiply bf16 faster but do not round factors on the way (`rounding`), as AMD's with AVX512-BF16. What
writing bf16 tensors costs is repaid by products of which the tensors are the smaller part. The gradient of a weight is as
large as the weight, so where it need not be written (`folding`) a product in fp32 that adds it at once is faster for few
samples. The last layer is left in fp32: products with few columns are slower in bf16.

Four MLPs 2x400, one core of an AMD EPYC (Zen 4), samples/s in fp32; in bf16 with gradients of weights added in fp32;
written in bf16 and then added. SGD: batch 10 25,000, 25,900, 15,600; 32 36,500, 42,800, 34,000; 64 36,400, 46,100, 46,300; 128
38,100, 50,300, 60,000; 256 39,800, 53,500, 66,700. Adam, whose gradients are written either way: 32 20,000, 22,500, 25,600; 128
31,100, 40,100, 52,100.

Shapes: E members, B samples, I and O inputs and outputs of a layer.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from contilab.engine.executions.layered import Layered
from contilab.models.contract import Model, Params

FEW = 64  # samples; chosen by the table above


class _Rounded(NamedTuple):
    """What the products of one layer take and give, tensors in bf16."""

    weight: Tensor  # [E, O, I]
    inputs: Tensor  # [E, B, I]
    outputs: Tensor  # [E, B, O]
    delta: Tensor  # [E, B, O], gradients of the outputs
    below: Tensor  # [E, B, I], gradients of the inputs
    gradient: Tensor  # [E, O, I], of the weights


class Mixed(Layered):
    """The passes of a chain in mixed precision, on a processor."""

    small = math.inf

    def __init__(self, model: Model, params: Params, batch: int) -> None:
        super().__init__(model, params, batch)
        self._has_few = batch <= FEW
        self._rounded = [_tensors(layer.weight, batch) for layer in self._layers[:-1]]

    def _up(self, place: int, values: Tensor) -> Tensor:
        if self._is_last(place):
            return super()._up(place, values)
        own, layer = self._rounded[place], self._layers[place]
        torch.bmm(own.inputs.copy_(values), own.weight.copy_(layer.weight).mT, out=own.outputs)
        return layer.outputs.copy_(own.outputs)

    def _down(self, place: int, delta: Tensor) -> Tensor:
        if self._is_last(place):
            return super()._down(place, delta)
        own = self._rounded[place]
        torch.bmm(own.delta.copy_(delta), own.weight, out=own.below)
        return self._layers[place].below.copy_(own.below)

    def _write(self, place: int, delta: Tensor, into: Tensor) -> None:
        if self._is_last(place):
            super()._write(place, delta, into)
        else:
            into.copy_(self._gradient(place, delta))

    def _add(self, place: int, delta: Tensor, into: Tensor, beta: float) -> None:
        if self._is_last(place) or self._has_few:
            super()._add(place, delta, into, beta)
        else:
            (into if beta == 1 else into.mul_(beta)).add_(self._gradient(place, delta))

    def _gradient(self, place: int, delta: Tensor) -> Tensor:
        own = self._rounded[place]
        return torch.bmm(own.delta.copy_(delta).mT, own.inputs, out=own.gradient)

    def _is_last(self, place: int) -> bool:
        return place == len(self._rounded)


def _tensors(weight: Tensor, batch: int) -> _Rounded:
    members, width, inputs = weight.shape

    def new(*shape: int) -> Tensor:
        return weight.new_empty(members, *shape, dtype=torch.bfloat16)

    return _Rounded(
        weight=new(width, inputs),
        inputs=new(batch, inputs),
        outputs=new(batch, width),
        delta=new(batch, width),
        below=new(batch, inputs),
        gradient=new(width, inputs),
    )
