"""Cumulative: task t is trained on the data of all tasks so far; its cost grows with t.

The loss is that of `naive`; each sample keeps the mask of its own task. With restart = true every task begins with the initial
parameters, otherwise with those of the task before. No continual learner, but what others are measured against right after each
task: intransigence (Chaudhry et al. 2018) reads the diagonal of the cumulative run of the same seed and preset.
"""

from dataclasses import dataclass
from typing import Annotated

from contilab.spec.entry import Entry
from contilab.spec.fields import Doc
from contilab.strategies.contract import Strategy
from contilab.strategies.naive import naive


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a manifest may set of cumulative training."""

    restart: Annotated[bool, Doc("begin every task with the initial parameters")] = False


def cumulative(settings: Settings) -> Strategy:
    """Return plain training on the data of all tasks so far.

    >>> strategy = cumulative(Settings(restart=True))
    >>> strategy.stages, strategy.is_fresh
    ('cumulative', True)
    """
    return naive()._replace(stages="cumulative", is_fresh=settings.restart)


ENTRY = Entry(
    make=cumulative,
    settings=Settings,
    numerics="cumulative/1",
    summary=(
        "Trains each task on the data of all tasks so far. "
        "It keeps all data and its cost grows with every task, so it is no continual learner; the metric intransigence "
        "compares others with it. With train.steps every task has as many steps; with train.epochs an epoch holds all data "
        "so far."
    ),
)
