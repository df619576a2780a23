"""Compiled forms of the executions: the step of a member or of all as one graph, by torch.compile.

`loop` has the samples of a batch as a dynamic axis, so that the last batch of an epoch needs no graph of its own; `vmap` and
`batched` have a graph per shape. Graphs differ between the first stage and later ones, and by shape; beyond *tasks* + 8 of one
function, or if compiling fails at any time (no compiler, no place for its files, an unknown user), the same step goes on
eagerly, and the execution reports why.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from contilab.engine.draws import Draw, unbind
from contilab.engine.ensemble import MemberState, clone, stack, unstack
from contilab.engine.executions.batched import batched_by
from contilab.engine.executions.contract import Execution, Report
from contilab.engine.executions.vmap import gradient
from contilab.engine.step import Learner, Lesson, make_learn, make_move
from contilab.errors import UsageError

SPARE_GRAPHS = 8  # of one function, besides one per task; torch's own limit is 8 in all
COMPILERS = ("g++", "clang++", "c++")

Step = Callable[[Lesson, MemberState, Draw], tuple[MemberState, Tensor]]


class Guarded:
    """A function that is compiled when it is first called, or stays as it is if that fails; counts the seconds."""

    def __init__(self, function: Callable[..., Any], report: "Reporter") -> None:
        self._function, self._report = _apart(function), report
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        if self._report.is_eager:
            return self._function(*arguments)
        begin, graphs = time.perf_counter(), self._report.graphs
        try:
            if self._compiled is None:
                self._compiled = torch.compile(self._function, fullgraph=True)
            results = self._compiled(*arguments)
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # noqa: BLE001  compiling fails by errors of any kind; what is wrong otherwise fails again below
            self._report.fell_back(error)
            return self._function(*arguments)
        if self._report.graphs != graphs:
            self._report.seconds += time.perf_counter() - begin
        return results


class Reporter:
    """What the compilations of one execution came to since the last report."""

    def __init__(self) -> None:
        self.is_eager, self.seconds, self._reason = False, 0.0, ""

    @property
    def graphs(self) -> int:
        """The graphs that were compiled in this process."""
        return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])  # noqa: SLF001  torch's public name for it is this one

    def fell_back(self, error: Exception) -> None:
        """Note that everything goes on eagerly from now on."""
        told = " ".join(str(error).split("\n\n")[0].split())  # torch's advice follows after an empty line
        self.is_eager, self._reason = True, f"{type(error).__name__}: {told}"[:300]

    def report(self) -> Report:
        """Return what is new."""
        found = Report(self.seconds, self._reason)
        self.seconds, self._reason = 0.0, ""
        return found


def compiled_loop(learner: Learner) -> Execution:
    """Return the member loop with a compiled step; raises UsageError where there is no compiler."""
    _check()
    reporter = Reporter()
    step = Guarded(_step(learner), reporter)

    def train(members: list[MemberState], lesson: Lesson, draws: Draw) -> tuple[list[MemberState], Tensor]:
        lesson, losses = _bounded(lesson), []
        with _limit(lesson):
            for draw in unbind(draws):
                pairs = [step(lesson, member, _dynamic(own)) for member, own in zip(members, unbind(draw), strict=True)]
                members = [member for member, _ in pairs]
                losses.append(torch.stack([loss for _, loss in pairs]))
        return members, torch.stack(losses)

    return Execution(lambda members: [clone(member) for member in members], list, train, reporter.report)


def compiled_vmap(learner: Learner) -> Execution:
    """Return the vmapped execution with both halves of its step compiled; raises UsageError where there is no compiler."""
    _check()
    reporter = Reporter()
    step = Guarded(torch.func.vmap(_step(learner), in_dims=(None, 0, 0)), reporter)

    def train(members: MemberState, lesson: Lesson, draws: Draw) -> tuple[MemberState, Tensor]:
        lesson, losses = _bounded(lesson), []
        with _limit(lesson):
            for draw in unbind(draws):
                members, loss = step(lesson, members, draw)
                losses.append(loss)
        return members, torch.stack(losses)

    return Execution(stack, lambda members: unstack(members, len(members.stored)), train, reporter.report)


def compiled_batched(learner: Learner) -> Execution:
    """Return the batched execution with a compiled loss; raises UsageError where there is no compiler.

    Its products are the library's either way, and a compiled graph would write gradients that the eager form folds away.
    """
    _check()
    reporter = Reporter()
    execution = batched_by(learner, partial(Guarded, report=reporter))

    def train(members: Any, lesson: Lesson, draws: Draw) -> tuple[Any, Tensor]:
        with _limit(lesson):
            return execution.train(members, lesson, draws)

    return execution._replace(train=train, report=reporter.report)


def _apart(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* under code of its own: dynamo counts graphs by code, which all groups of a process have in common."""

    def call(*arguments: Any) -> Any:
        return function(*arguments)

    return FunctionType(call.__code__.replace(), call.__globals__, call.__name__, None, call.__closure__)


def _step(learner: Learner) -> Step:
    learn, move = make_learn(learner, gradient), make_move(learner)

    def step(lesson: Lesson, member: MemberState, draw: Draw) -> tuple[MemberState, Tensor]:
        learned = learn(lesson, member, draw)
        moved, penalty = move(lesson, member, learned._replace(grads=clone(learned.grads)), draw)  # alone in memory
        return moved, learned.loss + penalty

    return step


def _bounded(lesson: Lesson) -> Lesson:
    """Return *lesson* with all later stages alike, which they are to a step: a graph holds for one value of a number."""
    return lesson._replace(stage=min(lesson.stage, 1))


def _dynamic(draw: Draw) -> Draw:
    """Mark the samples of a batch as an axis of any length."""
    for value in (draw.current, *draw.keep, *draw.views):
        torch._dynamo.maybe_mark_dynamic(value, 0)  # noqa: SLF001  torch's public name
    return draw


@contextmanager
def _limit(lesson: Lesson) -> Iterator[None]:
    with torch._dynamo.config.patch(recompile_limit=len(lesson.masks) + SPARE_GRAPHS):  # noqa: SLF001  torch's public name
        yield


def _check() -> None:
    names = (os.environ.get("CXX", ""), *COMPILERS)
    if not any(name and shutil.which(name) for name in names):
        hint = "install g++, or leave engine.compile at auto"
        raise UsageError("engine.compile", "there is no C++ compiler on this machine", hint=hint)
