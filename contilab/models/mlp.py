"""Multilayer perceptron: linear layers with ReLU between them, on flattened inputs; the model of the MNIST literature."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from annotated_types import Ge, Le
from torch import Tensor
from torch.nn.functional import relu

from contilab.models.contract import Forward, Model, Params, Uniform
from contilab.models.layers import linear
from contilab.spec.entry import Entry
from contilab.spec.fields import Doc

MOST_UNITS = 1_000_000  # of one layer; chosen: more fits into no machine's memory


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a manifest may set of the perceptron."""

    hidden: Annotated[
        tuple[Annotated[int, Ge(1), Le(MOST_UNITS)], ...], Doc("units of each hidden layer; none is a linear model")
    ] = (400, 400)

    def __post_init__(self) -> None:
        """Hold the widths as a tuple: JSON and TOML have lists only."""
        object.__setattr__(self, "hidden", tuple(self.hidden))


def mlp(settings: Settings, input_shape: tuple[int, ...], rows: int) -> Model:
    """Return the perceptron for inputs [B, *input_shape] and a head of *rows* rows.

    Weights and biases start uniform in ±1/sqrt(inputs of the layer), as in torch.nn.Linear.

    >>> mlp(Settings(), (28, 28), 10).flops
    955200
    """
    names = (*(f"hidden{index}" for index in range(len(settings.hidden))), "head")
    widths = (math.prod(input_shape), *settings.hidden, rows)
    table: dict[str, Uniform] = {}
    for name, (fan_in, fan_out) in zip(names, pairwise(widths), strict=True):
        bound = 1 / math.sqrt(fan_in)
        table |= {f"{name}.weight": Uniform((fan_out, fan_in), bound), f"{name}.bias": Uniform((fan_out,), bound)}

    def forward(params: Params, _buffers: Params, x: Tensor) -> Forward:
        features = x.flatten(-len(input_shape))
        for name in names[:-1]:
            features = relu(_layer(params, name, features))
        return Forward(features=features, logits=_layer(params, names[-1], features))

    flops = 2 * sum(a * b for a, b in pairwise(widths))
    return Model(table=table, forward=forward, flops=flops, takes_members=True, chain=names)


def _layer(params: Params, name: str, x: Tensor) -> Tensor:
    return linear(x, params[f"{name}.weight"], params[f"{name}.bias"])


ENTRY = Entry(
    make=mlp,
    settings=Settings,
    numerics="mlp/1",
    summary="Linear layers with ReLU between them. Inputs are flattened; the last layer is the head, one row per class.",
)
