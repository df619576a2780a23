"""The contract of a model: a function of parameters, buffers and inputs for ONE member, plus what is known of its shapes."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

Params = dict[str, Tensor]


class Forward(NamedTuple):
    """What a model computes: the features h(x) that enter the head, and raw logits."""

    features: Tensor  # [B, F]
    logits: Tensor  # [B, C]


class Uniform(NamedTuple):
    """One parameter's initial distribution: uniform in [-bound, bound]; bound 0 means zeros."""

    shape: tuple[int, ...]
    bound: float


class Model(NamedTuple):
    """A model for inputs of one shape and a head of C rows; built by `ENTRY.make(settings, input_shape, rows)`.

    table: every parameter's shape and initial distribution, in a fixed order; the engine draws each member's from its own seed.
    forward(params, buffers, x) with x [B, *input_shape] float32. flops: of one sample's forward pass, 2 per multiply-add.
    is_convolutional: one member alone gains from channels_last; see `layout`. takes_members: forward takes E members as well,
    every parameter [E, ...] and x [E, B, *input_shape], and gives each what it gets alone, [E, B, F] and [E, B, C]. chain: of a
    model that is nothing but linear layers with ReLU between them, on flattened inputs, their names in order; the parameters of
    a layer are NAME.weight [O, I] and NAME.bias [O]. Others have none. normalise(x, into=None): of a model that takes
    inputs as they are stored, what its forward does to them first, in new memory or *into* a tensor; for who computes a chain
    without forward.
    """

    table: dict[str, Uniform]
    forward: Callable[[Params, Params, Tensor], Forward]
    flops: int
    is_convolutional: bool = False
    takes_members: bool = False
    chain: tuple[str, ...] = ()
    normalise: Callable[..., Tensor] | None = None
