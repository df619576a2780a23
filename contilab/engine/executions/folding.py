"""An update that folds into products, as numbers and tensors that are ready before the steps of a chunk begin.

Shapes: E members.
"""

from typing import NamedTuple

from torch import Tensor

from contilab.engine.draws import Draw
from contilab.engine.ensemble import MemberState
from contilab.engine.step import Learner, Lesson, are_looked_at
from contilab.optim.contract import Fold

Factor = float | Tensor  # one number where all members have the same, else shaped to be multiplied with


class Target(NamedTuple):
    """One parameter, and what its gradient is added to."""

    theta: Tensor  # [E, ...]
    into: Tensor  # [E, ...], theta itself or what goes with it
    keep: Factor
    ahead: Factor | None
    pull: Factor | None
    behind: Factor | None

    def prepare(self) -> float:
        """Do what precedes the product; return the factor of *into* that the product itself takes."""
        if self.ahead is not None:
            _add(self.theta, self.into, self.ahead)
        if self.pull is None and isinstance(self.keep, float):
            return self.keep
        self.into.mul_(self.keep)
        if self.pull is not None:
            _add(self.into, self.theta, self.pull)
        return 1.0

    def finish(self) -> None:
        """Do what follows the product."""
        if self.behind is not None:
            _add(self.theta, self.into, self.behind)


class Folding(NamedTuple):
    """The targets by name of the parameter, and the factor of their gradients."""

    targets: dict[str, Target]
    rate: Factor

    def scaled(self, d: Tensor) -> Tensor:
        """Return the gradients *d* [E, B, C] of logits times the rate."""
        return d * self.rate if isinstance(self.rate, Tensor) or self.rate != 1 else d


def folding_of(learner: Learner, members: MemberState, lesson: Lesson, draws: Draw) -> Folding | None:
    """Return how updates fold where nothing but the optimiser looks at gradients; None elsewhere."""
    fold = learner.optimiser.fold
    is_pulled = learner.strategy.penalty is not None and lesson.stage > 0
    if fold is None or is_pulled or are_looked_at(learner, draws):
        return None
    return _folding(members, fold(members.params, members.optimiser))


def _folding(members: MemberState, fold: Fold) -> Folding:
    factors = [None if values is None else _number(values) for values in (fold.keep, fold.ahead, fold.pull, fold.behind)]

    def target(theta: Tensor, into: Tensor) -> Target:
        keep, *others = (_shaped(factor, theta) for factor in factors)
        return Target(theta, into, 1.0 if keep is None else keep, *others)

    targets = {name: target(theta, fold.into[name]) for name, theta in members.params.items()}
    rate = _number(fold.rate)
    return Folding(targets, rate if isinstance(rate, float) else rate[:, None, None])


def _number(values: Factor) -> Factor:
    if isinstance(values, float) or values.is_cuda:  # to ask for its numbers would wait for the device, and a graph cannot
        return values
    first, *others = values.tolist()
    return float(first) if all(value == first for value in others) else values


def _shaped(factor: Factor | None, like: Tensor) -> Factor | None:
    """Return *factor* [E] as [E, 1, ...], with the axes of *like*."""
    return factor.view(-1, *(1,) * (like.ndim - 1)) if isinstance(factor, Tensor) else factor


def _add(target: Tensor, value: Tensor, factor: Factor) -> None:
    if isinstance(factor, float):
        target.add_(value, alpha=factor)
    else:
        target.addcmul_(value, factor)
