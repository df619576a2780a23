"""A recorded function in three parts: what is the same or known beforehand, what each step needs at once, and what can wait.

Half of what gradient and loss come to depends on rows, masks and weights only, and nothing waits for the loss: of the 24
operations of a mean cross entropy each step has 4, one after the other; the others are done for all steps of a chunk at once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx

Flat = Callable[..., tuple[Tensor, ...]]

MOST_BYTES = 2**18  # that a step may carry to the end of its chunk; chosen: 16 MB per chunk, logits of 8 members take 20 KB

_aten = torch.ops.aten
_SAME = (_aten.detach.default, _aten.alias.default)  # that return their argument; recordings are below autograd
_FILLED = (_aten.ones_like.default, _aten.zeros_like.default, _aten.new_zeros.default, _aten.new_ones.default)  # by shape only


class Recording(NamedTuple):
    """A function with two results in three parts.

    `before = steady(*unchanging)`, `first, *carried = each(*changing, *before)` and `late(*carried, *before)` come to
    `first, second = function(*changing, *unchanging)`. *border*: how many tensors *before* holds.
    """

    steady: Flat
    each: Flat
    late: Callable[..., Tensor]
    border: int


def entry(values: Any, place: int) -> Any:
    """Return one result of an operation that has several."""
    return values[place]


def parted(graph: fx.Graph, constants: torch.nn.Module, changing: int, seen: dict[fx.Node, Tensor]) -> Recording:
    """Return *graph* in three parts, the first *changing* inputs being those that change.

    *constants* holds the tensors that it names; *seen*: what each operation returned when it was recorded. In a graph that
    writes into tensors each step does everything.
    """
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    moving = set(inputs[:changing])
    writes = any(_writes(node.target) for node in graph.nodes if node.op == "call_function")
    if not writes:
        _simplify(graph, constants, seen)
    for node in graph.nodes:
        if node.op == "output" or (writes and node.op == "call_function") or moving.intersection(node.all_input_nodes):
            moving.add(node)
    late = set() if writes else _late(graph, moving)
    carried = _carried(graph, moving - late, late)
    if sum(seen[node].nbytes for node in carried) > MOST_BYTES:
        late = set()
        carried = _carried(graph, moving, late)
    copies = _aliases(carried, inputs[:changing], seen)
    return _cut(graph, constants, _Parts(inputs, changing, moving, late, carried, copies))


class _Parts(NamedTuple):
    inputs: list[fx.Node]
    changing: int  # so many of them change from step to step
    moving: set[fx.Node]  # depends on these
    late: set[fx.Node]  # of those, what only the second result needs
    carried: list[fx.Node]  # what the late part takes from each step
    copies: set[fx.Node]  # of those, what has to be copied: training goes on writing into it


def _late(graph: fx.Graph, moving: set[fx.Node]) -> set[fx.Node]:
    """Return the operations in *moving* that the first result does not need."""
    first, _ = _results(graph)
    needed, open_nodes = {first}, [first]
    while open_nodes:
        new = set(open_nodes.pop().all_input_nodes) - needed
        needed |= new
        open_nodes += new
    late = {node for node in moving - needed if node.op == "call_function"}
    # Results are carried one by one: what takes one of several from an operation of the step belongs to the step.
    return {node for node in late if node.target is not entry or node.args[0] in late}


def _carried(graph: fx.Graph, each: set[fx.Node], late: set[fx.Node]) -> list[fx.Node]:
    _, second = _results(graph)
    return [node for node in graph.nodes if node in each and (late.intersection(node.users) or node is second)]


def _results(graph: fx.Graph) -> tuple[fx.Node, fx.Node]:
    results: Any = graph.output_node().args[0]
    first, second = results
    return first, second


def _aliases(carried: list[fx.Node], changing: list[fx.Node], seen: dict[fx.Node, Tensor]) -> set[fx.Node]:
    """Return which of *carried* share memory with an input that changes."""
    places = {seen[node].untyped_storage().data_ptr() for node in changing}
    return {node for node in carried if seen[node].untyped_storage().data_ptr() in places}


def _cut(graph: fx.Graph, constants: torch.nn.Module, parts: _Parts) -> Recording:
    still = [node for node in graph.nodes if node not in parts.moving]
    border = [node for node in still if node.op != "get_attr" and parts.moving.intersection(node.users)]
    return Recording(
        _function(constants, _steady(parts, still, border)),
        _function(constants, _each(graph, parts, border)),
        _function(constants, _afterwards(graph, parts, border)),
        len(border),
    )


def _steady(parts: _Parts, still: list[fx.Node], border: list[fx.Node]) -> fx.Graph:
    steady = fx.Graph()
    known: dict[fx.Node, fx.Node] = {}
    for node in [*parts.inputs[parts.changing :], *(node for node in still if node.op != "placeholder")]:
        known[node] = steady.node_copy(node, known.__getitem__)
    steady.output(tuple(known[node] for node in border))
    return steady


def _each(graph: fx.Graph, parts: _Parts, border: list[fx.Node]) -> fx.Graph:
    each = fx.Graph()
    known = {node: each.node_copy(node) for node in parts.inputs[: parts.changing]}
    known |= {node: each.placeholder(f"steady{place}") for place, node in enumerate(border)}
    _copy(graph, parts.moving - parts.late, each, known)
    taken = [_copied(each, known[node]) if node in parts.copies else known[node] for node in parts.carried]
    each.output((known[_results(graph)[0]], *taken))
    return each


def _copied(graph: fx.Graph, node: fx.Node) -> fx.Node:
    return graph.call_function(_aten.clone.default, (node,))


def _afterwards(graph: fx.Graph, parts: _Parts, border: list[fx.Node]) -> fx.Graph:
    late = fx.Graph()
    known = {node: late.placeholder(f"carried{place}") for place, node in enumerate(parts.carried)}
    known |= {node: late.placeholder(f"steady{place}") for place, node in enumerate(border)}
    _copy(graph, parts.late, late, known)
    late.output(known[_results(graph)[1]])
    return late


def _copy(graph: fx.Graph, nodes: set[fx.Node], into: fx.Graph, known: dict[fx.Node, fx.Node]) -> None:
    """Copy *nodes* and constants; *known*: what stands there for the nodes of *graph*."""
    for node in graph.nodes:
        if node.op == "get_attr" or (node in nodes and node not in known and node.op != "output"):
            known[node] = into.node_copy(node, known.__getitem__)


def _function(constants: torch.nn.Module, graph: fx.Graph) -> Callable[..., Any]:
    graph.eliminate_dead_code()
    return fx.GraphModule(constants, graph).forward


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
