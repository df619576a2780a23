"""The contract of an execution: it holds the members' states in its own form and trains all of them by the steps of a chunk."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor

from contilab.engine.draws import Draw
from contilab.engine.ensemble import MemberState
from contilab.engine.step import Learner, Lesson

Ensemble = Any  # what an execution makes of the members' states; only itself looks inside


class Report(NamedTuple):
    """What there is to say of the steps since the last report: seconds of compiling, and why it was given up."""

    compile_seconds: float = 0.0
    fallback: str = ""


class Execution(NamedTuple):
    """One way to train E members together, built by `make(learner)`; see engine/README.md for how to add one.

    gather(members) -> ensemble. scatter(ensemble) -> the members' states, in order; training may go on after it.
    train(ensemble, lesson, draws) -> (ensemble, losses [S, E]); draws of S steps, tensors [S, E, ...]. report() -> what is new.
    """

    gather: Callable[[list[MemberState]], Ensemble]
    scatter: Callable[[Ensemble], list[MemberState]]
    train: Callable[[Ensemble, Lesson, Draw], tuple[Ensemble, Tensor]]
    report: Callable[[], Report] = Report


MakeExecution = Callable[[Learner], Execution]
