"""A torch module as a model, for people who have one: its parameters keep their names, its code is called as it is.

Members start from numbers of their own, so each parameter's first distribution must be known: that of torch's own layers is
taken from their types (uniform in ±1/sqrt(inputs of one output); norms start as the identity, and their weights count from 1,
as in `layers.group_norm`). A module with other parameters, with running statistics (BatchNorm) or with random numbers inside
(dropout) is refused: a member's numbers must depend on its seed and its samples only.
"""

import copy
import math
import threading
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd
from torch.utils.flop_counter import FlopCounterMode

from contilab.errors import InputError
from contilab.models.contract import Forward, Model, Params, Uniform

PROBES = 2  # samples of the pass that shapes and operations are read from


def from_module(module: nn.Module, input_shape: tuple[int, ...], rows: int) -> Model:
    """Return *module* as a model; its last linear layer is the head, whose input are the features.

    Raises InputError if it cannot be one member of many, or does not turn inputs [B, *input_shape] into logits [B, rows].
    """
    table = dict(_first(module))
    scales = {name for name, item in table.items() if item.bound == 0 and name.endswith("weight")}
    if not any(isinstance(layer, nn.Linear) for layer in module.modules()):
        raise _refused(module, "has no linear layer, so no head")
    try:
        mine = _Own(module)
    except Exception as error:  # somebody's own code may raise anything
        raise _refused(module, f"cannot be copied, and each thread that trains needs its own: {error}") from error

    def forward(params: Params, _buffers: Params, x: Tensor) -> Forward:
        entered: list[Tensor] = []
        handle = mine.head.register_forward_pre_hook(lambda _layer, inputs: entered.append(inputs[0]))
        try:
            logits = functional_call(mine.module, {name: 1 + p if name in scales else p for name, p in params.items()}, (x,))
        finally:
            handle.remove()
        return Forward(features=entered[-1], logits=logits)

    flops = _probed(module, Model(table, forward, 0), input_shape, rows)
    is_convolutional = any(isinstance(layer, nn.Conv2d) for layer in module.modules())
    return Model(table, forward, flops, is_convolutional=is_convolutional)


class _Own(threading.local):
    """A copy of a module for each thread that calls it, and its head: a call puts a member's parameters into the module.

    The copies hold the same parameters, which no call looks at.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = copy.deepcopy(module, {id(value): value for value in module.parameters()})
        self.head = [layer for layer in self.module.modules() if isinstance(layer, nn.Linear)][-1]


def _first(module: nn.Module) -> Iterator[tuple[str, Uniform]]:
    """Yield the name and first distribution of each parameter."""
    for path, layer in module.named_modules():
        own = {f"{path}.{name}" if path else name: value for name, value in layer.named_parameters(recurse=False)}
        if isinstance(layer, _BatchNorm | _DropoutNd):
            raise _refused(module, f"has a {type(layer).__name__} ({path}): no member could have its numbers alone")
        if list(layer.buffers(recurse=False)):
            raise _refused(module, f"has buffers in {path or 'itself'}: a member is made of parameters only")
        if own and not isinstance(layer, nn.Linear | _ConvNd | nn.GroupNorm | nn.LayerNorm):
            raise _refused(module, f"has parameters in {path or 'itself'}, a {type(layer).__name__}, whose start is not known")
        fan_in = layer.weight[0].numel() if isinstance(layer, nn.Linear | _ConvNd) else None
        for name, value in own.items():
            yield name, Uniform(tuple(value.shape), 1 / math.sqrt(fan_in) if fan_in else 0)


def _probed(module: nn.Module, model: Model, input_shape: tuple[int, ...], rows: int) -> int:
    """Return the operations of one sample, once the module has done what a model does."""
    params = {name: torch.zeros(item.shape) for name, item in model.table.items()}
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        found = model.forward(params, {}, torch.zeros(PROBES, *input_shape))
    if not isinstance(found.logits, Tensor) or found.logits.shape != (PROBES, rows):
        shown = list(found.logits.shape) if isinstance(found.logits, Tensor) else type(found.logits).__name__
        raise _refused(module, f"turns {PROBES} inputs into {shown}, not into logits [{PROBES}, {rows}]")
    return int(counter.get_total_flops()) // PROBES


def _refused(module: nn.Module, problem: str) -> InputError:
    hint = "change the module, or return a contilab.models.contract.Model"
    return InputError("model.name", f"the module {type(module).__name__} {problem}", hint=hint)
