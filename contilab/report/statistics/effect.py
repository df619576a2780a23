"""How large a difference is, and which seeds stand apart."""

from collections.abc import Sequence
from statistics import fmean, median, stdev
from typing import NamedTuple

from contilab.metrics.contract import Absent, Value
from contilab.report.statistics.paired import TIE

FAR = 3.5  # modified z-score from which a value is an outlier (Iglewicz & Hoaglin 1993)
FEWEST = 5  # of fewer values none is told from the others; chosen


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


def outliers(values: Sequence[float]) -> list[bool]:
    """Return which values stand apart: 0.6745 abs(x - median) / MAD > 3.5. They are flagged, never dropped.

    >>> outliers([0.80, 0.81, 0.79, 0.80, 0.20])
    [False, False, False, False, True]
    """
    if len(values) < FEWEST:
        return [False] * len(values)
    middle = median(values)
    deviation = median(abs(value - middle) for value in values)
    return [0.6745 * abs(value - middle) > FAR * max(deviation, TIE) for value in values]


def _standardised(differences: Sequence[float]) -> Value:
    if len(differences) < 2:
        return Absent("one seed has no spread")
    spread = stdev(differences)
    return fmean(differences) / spread if spread > TIE else Absent("the standard deviation is 0")
