"""The contract of a model: a function of parameters, buffers and inputs for ONE member, plus what is known of its shapes."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from torch import Tensor

Params = dict[str, Tensor]
NO_TENSORS: Params = {}  # what fields hold by default; never written into

WEIGHT = "weight"  # among buffers: how much each sample of a training batch counts [B], 0 for padding
MOMENTUM = 0.1  # how far each step moves a buffer towards the moment of its batch; as in torch


class Forward(NamedTuple):
    """What a model computes: the features h(x) that enter the head, and raw logits.

    *moments*: of a model with buffers in training, what each of them is moved towards, by its name.
    """

    features: Tensor  # [B, F]
    logits: Tensor  # [B, C]
    moments: Params = NO_TENSORS


class Uniform(NamedTuple):
    """One parameter's initial distribution: uniform in [-bound, bound]; bound 0 means zeros."""

    shape: tuple[int, ...]
    bound: float


class Constant(NamedTuple):
    """One buffer's first value, the same in all places."""

    shape: tuple[int, ...]
    value: float


class Model(NamedTuple):
    """A model for inputs of one shape and a head of C rows; built by `ENTRY.make(settings, input_shape, rows)`.

    table: every parameter's shape and initial distribution, in a fixed order; the engine draws each member's from its own seed.
    forward(params, buffers, x) with x [B, *input_shape] float32; several threads may call it at once. flops: of one
    sample's forward pass, 2 per multiply-add. is_convolutional: one member alone gains from channels_last; see `layout`.
    takes_members: forward takes E members as well, every parameter [E, ...] and x [E, B, *input_shape], and gives each what
    it gets alone, [E, B, F] and [E, B, C]. chain: of a model that is nothing but linear layers with ReLU between them, on
    flattened inputs, their names in order; the parameters of a layer are NAME.weight [O, I] and NAME.bias [O]. Others have
    none. rounds: who computes a chain without forward is to multiply in bf16; forward does so by itself. normalise(x,
    into=None): of a model that takes inputs as they are stored, what its forward does to them first, in new memory or
    *into* a tensor; for who computes a chain without forward.

    buffers: of a model whose norms take means over batches, the first values of what it collects of them. Its forward
    normalises with the buffers that it gets, as in exams, and depends on no other sample then. In training it gets none of
    them, or WEIGHT alone: it then normalises with the moments of the batch and returns them. Other models take no buffers.
    """

    table: dict[str, Uniform]
    forward: Callable[[Params, Params, Tensor], Forward]
    flops: int
    is_convolutional: bool = False
    takes_members: bool = False
    chain: tuple[str, ...] = ()
    rounds: bool = False
    normalise: Callable[..., Tensor] | None = None
    buffers: Mapping[str, Constant] = {}
