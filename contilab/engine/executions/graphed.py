"""All steps of a chunk as one CUDA graph: its kernels are noted once, and launched with one call from then on.

A GPU is through with a small step before Python has told it the next one; a graph tells it all steps at once. It holds for
tensors at fixed addresses, so members and draws are copied into some that stay, and one graph is kept for each kind of chunk:
its number of steps, its shapes, and whatever else decides what a step does.

The first chunk of a kind trains as usual, which loads libraries and makes what is made once. The second trains as usual too,
and then by the graph from where it began: only if both come to the same numbers is the graph used. What cannot be noted (a
strategy that asks the host, for one) trains as usual from then on, and the execution reports why.

Shapes: S steps of a chunk, E members.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from contilab.engine.draws import Draw
from contilab.engine.ensemble import MemberState, clone
from contilab.engine.executions.batched import batched
from contilab.engine.executions.contract import Ensemble, Execution, Report
from contilab.engine.executions.vmap import vmap
from contilab.engine.step import Learner, Lesson
from contilab.errors import UsageError

MOST_GRAPHS = 32  # of a group; chosen: a graph of 64 steps has some thousand kernels, and tiers that record have many kinds
CLOSE = 1e-3  # of a tensor's largest entry; chosen: kernels may add in another order, and rounding grows over 64 steps

Capture = Callable[[Callable[[], Tensor]], tuple[Callable[[], None], Tensor]]


def graphed(learner: Learner) -> Execution:
    """Return the execution by CUDA graphs; raises UsageError where there is no GPU of NVIDIA."""
    if not torch.cuda.is_available():
        raise UsageError("engine.execution", "graphed needs a GPU of NVIDIA", hint="leave engine.execution at auto")
    return graphed_by(learner, on_cuda())


def graphed_by(learner: Learner, capture: Capture) -> Execution:
    """Return the execution in which *capture* is given the steps of a chunk.

    It returns what does the same again on the same tensors, and their losses, which it does not have to compute yet.
    """
    inner = batched(learner) if learner.model.takes_members else vmap(learner)
    chunks = _Chunks(inner, capture)
    return Execution(chunks.gather, lambda ensemble: clone(inner.scatter(ensemble)), chunks.train, chunks.report)


def on_cuda() -> Capture:
    """Return what captures on the current GPU, all graphs in the same memory: no two of them run at once."""
    pool = torch.cuda.graph_pool_handle()

    def capture(function: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            losses = function()
        return graph.replay, losses

    return capture


class _Graph(NamedTuple):
    replay: Callable[[], None]
    draws: Draw  # [S, E, ...], which it reads
    losses: Tensor  # [S, E], which it writes


class _Chunks:
    """Trains the chunks of a group; knows their graphs."""

    def __init__(self, inner: Execution, capture: Capture) -> None:
        self._inner, self._capture = inner, capture
        self._ensemble: Ensemble = None
        self._masks: Tensor | None = None
        self._graphs: dict[Any, _Graph | None] = {}  # None: such a chunk was trained once
        self._seconds, self._reason = 0.0, ""
        self._is_given_up = False

    def gather(self, members: list[MemberState]) -> Ensemble:
        """Return *members* in the tensors of the last ensemble if they fit, since graphs hold for these."""
        gathered = self._inner.gather(members)
        if self._ensemble is None or _kind(gathered) != _kind(self._ensemble):
            self._ensemble, self._graphs = gathered, {}
        else:
            _copy(gathered, self._ensemble)
        return self._ensemble

    def train(self, ensemble: Ensemble, lesson: Lesson, draws: Draw) -> tuple[Ensemble, Tensor]:
        """Train by the graph of such chunks if there is one."""
        if self._is_given_up:
            return self._inner.train(ensemble, lesson, draws)
        lesson = self._with_own_masks(lesson)
        key = _key(ensemble, lesson, draws)
        if graph := self._graphs.get(key):
            _copy(draws, graph.draws)
            graph.replay()
            return ensemble, graph.losses.clone()
        if key in self._graphs:
            return self._noted(key, ensemble, lesson, draws)
        if len(self._graphs) < MOST_GRAPHS:
            self._graphs[key] = None
        return self._inner.train(ensemble, lesson, draws)

    def report(self) -> Report:
        """Return the seconds that graphs took since the last report, and why they were given up."""
        found = Report(self._seconds, self._reason)
        self._seconds, self._reason = 0.0, ""
        return found

    def _with_own_masks(self, lesson: Lesson) -> Lesson:
        """Return *lesson* with its masks in a tensor that stays: each stage makes some of its own."""
        if self._masks is None or self._masks.shape != lesson.masks.shape:
            self._masks = torch.empty_like(lesson.masks)
        return lesson._replace(masks=self._masks.copy_(lesson.masks))

    def _noted(self, key: Any, ensemble: Ensemble, lesson: Lesson, draws: Draw) -> tuple[Ensemble, Tensor]:
        """Train as usual, note a graph of it, and keep that if it comes to the same numbers."""
        before = clone(ensemble)
        after, losses = self._inner.train(ensemble, lesson, draws)
        begin, expected = time.perf_counter(), clone(after)
        try:
            graph = self._graph(ensemble, lesson, draws)
            _copy(before, ensemble)
            graph.replay()
            _compare((ensemble, graph.losses), (expected, losses))
            self._graphs[key] = graph
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # noqa: BLE001  steps that cannot be noted fail by errors of any kind
            self._is_given_up, self._reason, self._graphs = True, f"{type(error).__name__}: {error}".split("\n")[0][:300], {}
        _copy(expected, ensemble)
        self._seconds += time.perf_counter() - begin
        return ensemble, losses

    def _graph(self, ensemble: Ensemble, lesson: Lesson, draws: Draw) -> _Graph:
        own = clone(draws)

        def steps() -> Tensor:
            moved, losses = self._inner.train(ensemble, lesson, own)
            if _places(moved) != _places(ensemble):
                raise RuntimeError("members move to other tensors, which a graph cannot follow")
            return losses

        replay, losses = self._capture(steps)
        return _Graph(replay, own, losses)


def _key(ensemble: Ensemble, lesson: Lesson, draws: Draw) -> Any:
    """Return all that decides what the steps of a chunk do to which tensors, but the numbers in these.

    To a step all stages after the first are alike.
    """
    pool = lesson._replace(stage=0)
    return min(lesson.stage, 1), _kind(draws), _places(ensemble), _kind(pool), _places(pool)


def _kind(tree: Any) -> Any:
    leaves, form = pytree.tree_flatten(tree)
    return form, tuple((leaf.shape, leaf.stride(), leaf.dtype, leaf.device) for leaf in leaves if isinstance(leaf, Tensor))


def _places(tree: Any) -> tuple[int, ...]:
    return tuple(leaf.data_ptr() for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor))


def _copy(source: Any, target: Any) -> None:
    """Write the tensors of *source* into those of *target*, a tree of the same form."""
    for value, into in zip(pytree.tree_leaves(source), pytree.tree_leaves(target), strict=True):
        into.copy_(value)


def _compare(found: Any, expected: Any) -> None:
    """Raise RuntimeError unless both trees hold the same numbers but for rounding; members that diverged may hold anything."""
    if not all(map(_is_close, pytree.tree_leaves(found), pytree.tree_leaves(expected))):
        raise RuntimeError("a graph came to other numbers than the steps that it is made of")


def _is_close(one: Tensor, other: Tensor) -> bool:
    if not one.is_floating_point():
        return torch.equal(one, other)
    finite = other.isfinite()
    gap = (one - other)[finite].abs()
    return not gap.numel() or bool(gap.max() <= CLOSE * other[finite].abs().max())
