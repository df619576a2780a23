"""The steps of a chunk as CUDA graphs: their kernels are noted once, and launched with one call from then on.

A GPU is through with a small step before Python has told it the next one; a graph tells it many at once. It holds for tensors
at fixed addresses, so members and draws are copied into some that stay, and one graph is kept for each kind of piece: its
steps, shapes, and whatever else decides what a step does. Chunks are trained in pieces of 64, 32, 16, ... steps, so that there
are few kinds.

The first piece of a kind trains as usual, which loads libraries and makes what is made once. The second trains as usual too,
and then by the graph from where it began: only if both come to the same bits is the graph used. Which steps go by a graph
depends on the clock, and two attempts at a run in equal circumstances must agree in every bit. Where that fails, by a step
that cannot be noted or for want of memory, training goes on as usual, and the execution reports why.

Shapes: S steps, E members.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.torch_version import TorchVersion
from torch.utils import _pytree as pytree

from contilab.engine.draws import Draw, packed
from contilab.engine.ensemble import MemberState, clone
from contilab.engine.executions.batched import batched
from contilab.engine.executions.contract import Ensemble, Execution, Report
from contilab.engine.executions.vmap import vmap
from contilab.engine.step import Learner, Lesson
from contilab.errors import UsageError

MOST_KINDS = 64  # that are known at a time; chosen: 7 lengths, the last batch of an epoch, the first stage and later ones
OLDEST = "2.13"  # torch that can give memory back after a capture that failed; 2.12.1 lacks pytorch/pytorch#180395

Steps = Callable[[], Tensor]  # trains, and returns losses [S, E]
Capture = Callable[[Steps], tuple[Callable[[], None], Tensor]]  # what does the same again, and its losses, once it was called
Value = TypeVar("Value")


def graphed(learner: Learner) -> Execution:
    """Return the execution by CUDA graphs, for members on a GPU; raises UsageError under a torch that is too old."""
    if TorchVersion(torch.__version__) < OLDEST:
        problem = f"graphed needs torch {OLDEST} or newer, and this is {torch.__version__}"
        raise UsageError("engine.execution", problem, hint="leave engine.execution at auto")
    return graphed_by(learner, on_cuda)


def graphed_by(learner: Learner, make: Callable[[], Capture]) -> Execution:
    """Return the execution whose graphs are captured by what *make* makes, anew whenever no graph is left."""
    inner = batched(learner) if learner.model.takes_members else vmap(learner)
    pieces = _Pieces(inner, make)
    return Execution(pieces.gather, pieces.scatter, pieces.train, pieces.report)


def on_cuda() -> Capture:
    """Return what captures on the current GPU, all graphs in the same memory: no two of them run at once."""
    pool, stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's

    def capture(steps: Steps) -> tuple[Callable[[], None], Tensor]:
        graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph, pool=pool, stream=stream):
                losses = steps()
        except Exception as error:  # noqa: BLE001  it is raised again, or what it hides
            raise (error.__context__ or error) from None  # a capture that failed cannot be ended, which is not why it failed
        finally:
            torch.cuda.set_stream(before)  # and its stream is not left
        return graph.replay, losses

    return capture


class _Graph(NamedTuple):
    replay: Callable[[], None]
    draws: Draw  # [S, E, ...], which it reads
    losses: Tensor  # [S, E], which it writes


class _Pieces:
    """Trains the chunks of a group piece by piece; knows the graphs of kinds of pieces."""

    def __init__(self, inner: Execution, make: Callable[[], Capture]) -> None:
        self._inner, self._make = inner, make
        self._capture: Capture | None = None
        self._ensemble: Ensemble = None
        self._masks: Tensor | None = None
        self._graphs: dict[Any, _Graph | None] = {}  # by kind, the latest last; None: such a piece was trained once
        self._seconds, self._reason = 0.0, ""
        self._is_given_up = False

    def gather(self, members: list[MemberState]) -> Ensemble:
        """Return *members* in the tensors of the last ensemble if they fit, since graphs hold for these."""
        gathered = self._inner.gather(members)
        if self._is_given_up:
            return gathered
        if self._ensemble is None or _form(gathered) != _form(self._ensemble):
            self._forget()
            self._ensemble = gathered
        else:
            _copy(gathered, self._ensemble)
        return self._ensemble

    def scatter(self, ensemble: Ensemble) -> list[MemberState]:
        """Return the members of *ensemble*, in tensors of their own as long as its tensors may be written by graphs."""
        members = self._inner.scatter(ensemble)
        return members if self._is_given_up else clone(members)

    def train(self, ensemble: Ensemble, lesson: Lesson, draws: Draw) -> tuple[Ensemble, Tensor]:
        """Train by graphs as far as there are some."""
        if self._is_given_up:
            return self._inner.train(ensemble, lesson, draws)
        lesson = self._with_own_masks(lesson)
        return ensemble, torch.cat([self._trained(ensemble, lesson, piece) for piece in _pieces(draws)])

    def report(self) -> Report:
        """Return the seconds that graphs took since the last report, and why they were given up."""
        found = Report(self._seconds, self._reason)
        self._seconds, self._reason = 0.0, ""
        return found

    def _trained(self, ensemble: Ensemble, lesson: Lesson, draws: Draw) -> Tensor:
        key = _key(ensemble, lesson, draws)
        is_known, graph = key in self._graphs, self._graphs.pop(key, None)
        if not self._is_given_up:
            self._graphs[key] = graph
        if len(self._graphs) > MOST_KINDS:
            del self._graphs[next(iter(self._graphs))]
        if graph is not None:
            _copy(draws, graph.draws)
            graph.replay()
            return graph.losses.clone()
        before = self._tried(partial(clone, ensemble)) if is_known else None
        _, losses = self._inner.train(ensemble, lesson, draws)
        if before is not None:
            self._tried(lambda: self._note(key, (before, losses), ensemble, lesson, draws))
        return losses

    def _note(self, key: Any, trained: tuple[Ensemble, Tensor], ensemble: Ensemble, lesson: Lesson, draws: Draw) -> None:
        """Keep a graph of the steps that *trained* an ensemble to what *ensemble* is, with losses, if it comes to the same."""
        (before, losses), expected = trained, clone(ensemble)
        try:
            graph = self._graph(ensemble, lesson, draws)
            _copy(before, ensemble)
            graph.replay()
            _compare((ensemble, graph.losses), (expected, losses))
            self._graphs[key] = graph
        finally:
            _copy(expected, ensemble)

    def _graph(self, ensemble: Ensemble, lesson: Lesson, draws: Draw) -> _Graph:
        own = clone(draws)

        def steps() -> Tensor:
            moved, losses = self._inner.train(ensemble, lesson, own)
            if _places(moved) != _places(ensemble):
                raise RuntimeError("members move to other tensors, which a graph cannot follow")
            return losses

        self._capture = self._capture or self._make()
        replay, losses = self._capture(steps)
        return _Graph(replay, own, losses)

    def _tried(self, work: Callable[[], Value]) -> Value | None:
        """Return what *work* returns; if it fails, by whatever error, graphs are given up."""
        begin = time.perf_counter()
        try:
            return work()
        except Exception as error:  # noqa: BLE001  steps that cannot be noted fail by errors of any kind; too little memory is one
            self._is_given_up, self._reason = True, f"{type(error).__name__}: {error}".split("\n")[0][:300]
            self._forget()
            self._ensemble, self._masks = None, None
            return None
        finally:
            self._seconds += time.perf_counter() - begin

    def _forget(self) -> None:
        self._graphs, self._capture = {}, None

    def _with_own_masks(self, lesson: Lesson) -> Lesson:
        """Return *lesson* with its masks in a tensor that stays: each stage makes some of its own."""
        if self._masks is None or self._masks.shape != lesson.masks.shape:
            self._masks = torch.empty_like(lesson.masks)
        return lesson._replace(masks=self._masks.copy_(lesson.masks))


def _pieces(draws: Draw) -> Iterator[Draw]:
    """Yield *draws* in as few pieces as there are, whose numbers of steps are powers of two."""
    steps, first = len(draws.current), 0
    while first < steps:
        last = first + 2 ** ((steps - first).bit_length() - 1)
        yield pytree.tree_map(lambda leaf, first=first, last=last: packed(leaf[first:last]), draws)
        first = last


def _key(ensemble: Ensemble, lesson: Lesson, draws: Draw) -> Any:
    """Return all that decides what the steps of a piece do to which tensors, but the numbers in these.

    To a step all stages after the first are alike.
    """
    pool = lesson._replace(stage=0)
    return min(lesson.stage, 1), _form(draws), _places(ensemble), _form(pool), _places(pool)


def _form(tree: Any) -> Any:
    leaves, form = pytree.tree_flatten(tree)
    return form, tuple((leaf.shape, leaf.stride(), leaf.dtype, leaf.device) for leaf in leaves if isinstance(leaf, Tensor))


def _places(tree: Any) -> tuple[int, ...]:
    return tuple(leaf.data_ptr() for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor))


def _copy(source: Any, target: Any) -> None:
    """Write the tensors of *source* into those of *target*, a tree of the same form."""
    for value, into in zip(pytree.tree_leaves(source), pytree.tree_leaves(target), strict=True):
        into.copy_(value)


def _compare(found: Any, expected: Any) -> None:
    """Raise RuntimeError unless both trees hold the same bits; what diverged may hold what is no number."""
    pairs = zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True)
    if not all(torch.equal(_bits(one), _bits(other)) for one, other in pairs):
        raise RuntimeError("a graph came to other numbers than the steps that it is made of")


def _bits(values: Tensor) -> Tensor:
    return values.clone(memory_format=torch.contiguous_format).flatten().view(torch.uint8)  # one number may have any stride
