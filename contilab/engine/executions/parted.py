"""A recorded function in two parts: what changes from step to step, and what is the same or known beforehand.

Half of what loss and gradient come to depends on rows, masks and weights only: of the 24 operations of a mean cross entropy 10
are left to each step.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx

Flat = Callable[..., tuple[Tensor, ...]]

_aten = torch.ops.aten
_SAME = (_aten.detach.default, _aten.alias.default)  # that return their argument; recordings are below autograd
_FILLED = (_aten.ones_like.default, _aten.zeros_like.default, _aten.new_zeros.default, _aten.new_ones.default)  # by shape only


class Recording(NamedTuple):
    """A function in two parts: `each(*changing, *steady(*unchanging))` is `function(*changing, *unchanging)`.

    *border*: how many tensors go from one to the other.
    """

    steady: Flat
    each: Flat
    border: int


def entry(values: Any, place: int) -> Any:
    """Return one result of an operation that has several."""
    return values[place]


def parted(graph: fx.Graph, constants: torch.nn.Module, changing: int, seen: dict[fx.Node, Tensor]) -> Recording:
    """Return *graph* in two parts, the first *changing* inputs being those that change.

    *constants* holds the tensors that it names; *seen*: what each operation returned when it was recorded. A graph that writes
    into tensors stays in one part.
    """
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    moving = set(inputs[:changing])
    writes = any(_writes(node.target) for node in graph.nodes if node.op == "call_function")
    if not writes:
        _simplify(graph, constants, seen)
    for node in graph.nodes:
        if node.op == "output" or (writes and node.op == "call_function") or moving.intersection(node.all_input_nodes):
            moving.add(node)
    return _cut(graph, constants, moving, inputs, changing)


def _cut(graph: fx.Graph, constants: torch.nn.Module, moving: set[fx.Node], inputs: list[fx.Node], changing: int) -> Recording:
    still = [node for node in graph.nodes if node not in moving]
    border = [node for node in still if node.op != "get_attr" and moving.intersection(node.users)]
    steady, each = fx.Graph(), fx.Graph()
    known: dict[fx.Node, fx.Node] = {}
    for node in [*inputs[changing:], *(node for node in still if node.op != "placeholder")]:
        known[node] = steady.node_copy(node, known.__getitem__)
    steady.output(tuple(known[node] for node in border))
    known = {node: each.node_copy(node) for node in inputs[:changing]}
    known |= {node: each.placeholder(f"steady{place}") for place, node in enumerate(border)}
    for node in graph.nodes:
        if node.op == "get_attr" or (node in moving and node not in known):
            known[node] = each.node_copy(node, known.__getitem__)
    return Recording(_function(constants, steady), _function(constants, each), len(border))


def _function(constants: torch.nn.Module, graph: fx.Graph) -> Flat:
    graph.eliminate_dead_code()
    run: Flat = fx.GraphModule(constants, graph).forward
    return run


def _simplify(graph: fx.Graph, constants: torch.nn.Module, seen: dict[fx.Node, Tensor]) -> None:
    """Replace what returns its argument, and what returns the same in every step."""
    for node in graph.nodes:
        if node.target in _SAME:
            node.replace_all_uses_with(node.args[0])
        elif node.target is _aten.cat.default and len(node.args[0]) == 1:
            node.replace_all_uses_with(node.args[0][0])
        elif node.target is entry and node.args[0].target is _aten.split_with_sizes.default and len(node.args[0].args[1]) == 1:
            node.replace_all_uses_with(node.args[0].args[0])
        elif node.target in _FILLED:
            constants.register_buffer(node.name, seen[node])
            with graph.inserting_before(node):
                node.replace_all_uses_with(graph.get_attr(node.name))
    graph.eliminate_dead_code()


def _writes(function: Any) -> bool:
    return isinstance(function, torch._ops.OpOverload) and function._schema.is_mutable  # noqa: SLF001 - there is no other way
