"""Joint: all tasks merged into one training stage; the upper bound of every study.

The loss is that of `naive`; each sample keeps the mask of its own task (class-incremental: all rows).
"""

from contilab.spec.entry import Entry
from contilab.strategies.contract import Strategy
from contilab.strategies.naive import naive


def joint() -> Strategy:
    """Return plain training in one stage that holds the data of all tasks.

    >>> joint().stages
    'joint'
    """
    return naive()._replace(stages="joint")


ENTRY = Entry(
    make=lambda _settings: joint(),
    numerics="joint/1",
    summary=(
        "Trains once on all tasks together. "
        "It is the upper bound and no continual learner: its accuracy matrix has one row, so metrics that need an earlier row "
        "are absent."
    ),
)
