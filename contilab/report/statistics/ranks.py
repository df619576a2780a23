"""Ranks of methods across benchmarks: Friedman's test, then the critical difference of Nemenyi (Demsar 2006).

The N of both are benchmarks, never seeds: seeds of one benchmark are no independent evidence about others.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from contilab.metrics.contract import Absent, Value
from contilab.report.statistics.paired import LEVEL, mid_ranks

NO_SCIPY = Absent("it needs scipy, which comes with contilab[report]")


class Ranking(NamedTuple):
    """Mean *ranks* of the methods (1 is best) over *benchmarks*; *p* of Friedman, *critical* difference of Nemenyi."""

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    benchmarks: int
    p: Value
    critical: Value

    @property
    def is_separable(self) -> bool:
        """Whether two mean ranks can differ by the critical difference at all: k methods have ranks 1 to k."""
        return not isinstance(self.critical, Absent) and self.critical < len(self.names) - 1

    @property
    def is_telling(self) -> bool:
        """Whether the ranks can do more than describe.

        They can where the best of k methods could be told from the worse half of them, which begins (k + 1) // 2 ranks below
        it if all benchmarks agree (chosen). A critical difference beyond that tells extremes apart at best, whatever was
        measured: for 16 methods on 6 benchmarks it is 9.42 of 15 ranks, and the worse half begins 8 ranks below the best. With
        two or three methods that is the largest difference there can be.
        """
        return not isinstance(self.critical, Absent) and self.critical < (len(self.names) + 1) // 2

    @property
    def cliques(self) -> tuple[tuple[int, int], ...]:
        """The first and last place, in the order of ranks, of each longest group that the test does not tell apart."""
        if isinstance(self.critical, Absent):
            return ()
        ranks = sorted(self.ranks)
        ends = [max(i for i, rank in enumerate(ranks) if rank - low <= self.critical) for low in ranks]
        return tuple((i, end) for i, end in enumerate(ends) if end > i and (i == 0 or ends[i - 1] < end))


def ranking(names: Sequence[str], values: Sequence[Sequence[float]]) -> Ranking:
    """Return the ranking of *names* by *values* [N benchmarks, k methods], higher better; ties share their mean rank.

    >>> ranking(["a", "b"], [[0.9, 0.8], [0.7, 0.7]]).ranks
    (1.25, 1.75)
    """
    table = np.asarray(values, dtype=np.float64)
    ranks = np.array([mid_ranks(-row) for row in table])
    mean = tuple(float(rank) for rank in ranks.mean(axis=0))
    return Ranking(tuple(names), mean, len(table), friedman(table.tolist()), critical_difference(len(names), len(table)))


def friedman(values: Sequence[Sequence[float]]) -> Value:
    """Return p of Friedman's test (chi-square approximation, corrected for ties) of *values* [N benchmarks, k methods].

    Absent below 3 methods or 2 benchmarks, if all methods tie, and where scipy is not installed.
    """
    table = np.asarray(values, dtype=np.float64)
    benchmarks, methods = table.shape
    if methods < 3 or benchmarks < 2:
        return Absent("it needs three methods and two benchmarks")
    if find_spec("scipy") is None:
        return NO_SCIPY
    ranks = np.array([mid_ranks(row) for row in table])  # ties by our tolerance, then the same statistic
    if np.ptp(ranks, axis=1).max() == 0:
        return Absent("all methods tie everywhere")
    from scipy.stats import friedmanchisquare  # type: ignore[import-untyped]  # it ships no types

    return float(friedmanchisquare(*ranks.T).pvalue)


def critical_difference(methods: int, benchmarks: int) -> Value:
    """Return the difference of mean ranks from which two of *methods* differ at .05: q sqrt(k(k+1)/(6N)).

    q is the studentised range for infinite degrees of freedom, divided by sqrt(2). Absent without scipy, and below two
    methods or two benchmarks.

    >>> round(critical_difference(16, 6), 2)
    9.42
    """
    if methods < 2 or benchmarks < 2:
        return Absent("it needs two methods and two benchmarks")
    if find_spec("scipy") is None:
        return NO_SCIPY
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - LEVEL, methods, inf)) / sqrt(2)
    return q * sqrt(methods * (methods + 1) / (6 * benchmarks))
