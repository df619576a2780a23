"""Tests of paired differences: is the mean of d_s = a_s - b_s over seeds s further from zero than chance makes it?

Both tests are exact: they count, of all sign patterns that chance could have given, those at least as extreme as what was
seen. So with n differences that are not zero neither can give a p below 2^(1-n), whatever the effect.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

LEVEL = 0.05  # of every test of a report
TIE = 1e-12  # rounding of two equal differences stays below this
EXACT_SEEDS = 20  # up to here all 2^n patterns are counted, beyond it random ones
DRAWS = 100_000
GENERATOR = 20_260  # fixed, so that a report gives the same p twice; chosen


def sign_flip(differences: Sequence[float]) -> float:
    """Return the two-sided p of the exact sign-flip permutation test, with the statistic abs(mean d).

    Beyond 20 differences it is (hits + 1) / (draws + 1) over 100,000 random patterns. ValueError without a difference.

    >>> sign_flip([1.2, -0.3, 0.9, 0.4, 1.5]), sign_flip([1, 2, 3, 4, 5, 6])
    (0.125, 0.03125)
    """
    d = _vector(differences)
    seen = abs(_sum(d)) / d.size
    if d.size <= EXACT_SEEDS:
        return float(np.mean(np.abs(_sums(d)) / d.size >= seen - TIE))
    hits = int(np.sum(np.abs(_signs(d.size) @ d) / d.size >= seen - TIE))
    return (hits + 1) / (DRAWS + 1)


def wilcoxon(differences: Sequence[float]) -> float:
    """Return the two-sided exact p of the signed-rank test (Wilcoxon 1945): zeros dropped, mid-ranks for ties.

    1 if every difference is zero. ValueError without a difference.

    >>> wilcoxon([1.2, -0.3, 0.9, 0.4, 1.5]), wilcoxon([0.0, 0.0])
    (0.125, 1.0)
    """
    d = nonzero(differences)
    if not d.size:
        return 1.0
    doubled = np.rint(2 * mid_ranks(np.abs(d))).astype(int)  # mid-ranks are halves, so doubled they are counted exactly
    shares = np.zeros(int(doubled.sum()) + 1)  # of the patterns, by sum of positive ranks; multiples of 2^-n, exact to n = 52
    shares[0] = 1
    for rank in doubled:
        shares[rank:] = shares[rank:] + shares[:-rank]
        shares /= 2
    positive = int(doubled[d > 0].sum())
    return float(min(1.0, 2 * min(shares[: positive + 1].sum(), shares[positive:].sum())))


def mid_ranks(values: Sequence[float] | Any) -> Any:
    """Return the ranks of *values* from 1, smallest first; values within 1e-12 of their neighbour share their mean rank.

    >>> mid_ranks([0.3, 0.1, 0.3, 0.2]).tolist()
    [3.5, 1.0, 3.5, 2.0]
    """
    v = np.asarray(values, dtype=np.float64)
    order = np.argsort(v, kind="stable")
    group = np.concatenate([[0], np.cumsum(np.diff(v[order]) > TIE)])
    last = np.cumsum(np.bincount(group))
    mean = last - (np.bincount(group) - 1) / 2
    ranks = np.empty(v.size)
    ranks[order] = mean[group]
    return ranks


def nonzero(differences: Sequence[float]) -> Any:
    """Return the differences that are not zero; ValueError if there is none at all to look at."""
    d = _vector(differences)
    return d[np.abs(d) > TIE]


def minimum_p(seeds: int) -> float:
    """Return the smallest p that an exact paired test over *seeds* differences can give: 2^(1-n) (sign-flip and Wilcoxon).

    >>> minimum_p(4), minimum_p(6), minimum_p(0)
    (0.125, 0.03125, 1.0)
    """
    return min(1.0, 2.0 ** (1 - seeds))


def seeds_needed(comparisons: int, level: float = LEVEL) -> int:
    """Return the fewest seeds with which Holm's first step over *comparisons* tests can reach *level*.

    >>> [seeds_needed(size) for size in (1, 3, 7, 120)]
    [6, 7, 9, 13]
    """
    seeds = 1
    while comparisons * minimum_p(seeds) > level:
        seeds += 1
    return seeds


def _vector(differences: Sequence[float]) -> Any:
    d = np.asarray(differences, dtype=np.float64)
    if not d.size:
        raise ValueError("there is no difference to test")
    return d


@lru_cache(maxsize=1)
def _signs(size: int) -> Any:
    """Return the random patterns [draws, size] of every test over *size* differences, drawn once."""
    return np.random.default_rng(GENERATOR).integers(0, 2, (DRAWS, size), dtype=np.int8) * 2.0 - 1.0


def _sums(d: Any) -> Any:
    """Return the sums under every sign pattern whose first sign is kept: the others are the same with their sign turned."""
    sums = d[:1]
    for value in d[1:]:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def _sum(d: Any) -> float:
    """Return the sum in the order of `_sums`, so that the pattern that was seen ties with itself."""
    total = 0.0
    for value in d:
        total += float(value)
    return total
