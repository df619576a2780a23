"""A function of tensors, run once and written down as the plain operations it came to.

What vmap and automatic differentiation do is the same in every step and takes longer than the operations on small tensors
themselves: loss and gradient of a batch's cross entropy take 400 µs through both, and 75 µs as operations in a row (one Xeon
core). Of these, half depend on nothing that changes from step to step; they are done for all steps of a chunk at once.

A recording holds for inputs of the same shapes, so the function must not look at numbers.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from contilab.engine.executions.parted import Flat, Recording, entry, parted


def recorded(function: Flat, changing: Sequence[Tensor], unchanging: Sequence[Tensor]) -> Recording:
    """Run *function* and return what does the same on other tensors of the same shapes, dtypes and devices.

    Results may share memory with inputs where they do so in *function*. Raises what *function* raises.
    """
    recorder = _Recorder([*changing, *unchanging])
    with recorder:
        results = function(*changing, *unchanging)
    return recorder.written_down(results, len(changing))


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's
    """Sees every operation below vmap and autograd, on plain tensors."""

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self._graph = fx.Graph()
        self._constants = torch.nn.Module()
        self._alive: list[Tensor] = []  # a tensor is known by its id, which must not go to another one
        self._nodes: dict[int, fx.Node] = {}
        for place, value in enumerate(inputs):
            self._know(value, self._graph.placeholder(f"input{place}"))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        node = self._graph.call_function(func, *pytree.tree_map_only(Tensor, self._node, (args, kwargs)))
        if isinstance(out, Tensor):
            self._know(out, node)
        else:
            for place, value in enumerate(out):
                if isinstance(value, Tensor):
                    self._know(value, self._graph.call_function(entry, (node, place)))
        return out

    def written_down(self, results: tuple[Tensor, ...], changing: int) -> Recording:
        self._graph.output(tuple(self._node(value) for value in results))
        self._graph.eliminate_dead_code()  # keeps what writes into tensors
        seen = {self._nodes[id(value)]: value for value in self._alive}
        return parted(self._graph, self._constants, changing, seen)

    def _know(self, value: Tensor, node: fx.Node) -> None:
        self._alive.append(value)
        self._nodes[id(value)] = node

    def _node(self, value: Tensor) -> fx.Node:
        if id(value) not in self._nodes:  # not made here, so it is the same in every step
            name = f"constant{len(self._alive)}"
            self._constants.register_buffer(name, value)
            self._know(value, self._graph.get_attr(name))
        return self._nodes[id(value)]
