"""How large a difference is."""

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from contilab.metrics.contract import Absent, Value
from contilab.report.statistics.paired import TIE


class Effect(NamedTuple):
    """*mean* difference, *standardised* (mean / sd with n - 1), and seeds *won*, *tied* and *lost*."""

    mean: float
    standardised: Value
    won: int
    tied: int
    lost: int


def effect(differences: Sequence[float], *, higher_is_better: bool = True) -> Effect:
    """Return the effect of paired *differences* (method minus baseline); a seed is won where the method is better.

    >>> effect([0.1, 0.3, 0.0, -0.2])[2:]
    (2, 1, 1)
    >>> effect([0.5, 0.5]).standardised
    Absent(reason='the standard deviation is 0')
    """
    gains = [value if higher_is_better else -value for value in differences]
    won, lost = sum(gain > TIE for gain in gains), sum(gain < -TIE for gain in gains)
    return Effect(fmean(differences), _standardised(differences), won, len(gains) - won - lost, lost)


def _standardised(differences: Sequence[float]) -> Value:
    if len(differences) < 2:
        return Absent("one seed has no spread")
    spread = stdev(differences)
    return fmean(differences) / spread if spread > TIE else Absent("the standard deviation is 0")
