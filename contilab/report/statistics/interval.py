"""Intervals of a mean over seeds: percentile bootstrap and Student t; both are printed, since they fail differently.

The percentile interval is too narrow for few seeds: of nominal 95 % intervals over normal data, the measured share that
holds the true mean is `COVERAGE`; the t interval holds 95 % there.
"""

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from contilab.metrics.contract import Absent

CONFIDENCE = 0.95
RESAMPLES = 10_000
GENERATOR = 20_261  # fixed, so that a report gives the same interval twice; chosen
COVERAGE = {3: 76, 5: 84, 6: 86, 8: 89, 10: 90, 20: 93}  # percent, by number of seeds; measured
HONEST_SEEDS = 10  # below, the report says how often the bootstrap interval holds the mean


class Interval(NamedTuple):
    """From *low* to *high*, in the unit of the values."""

    low: float
    high: float


def bootstrap_interval(values: Sequence[float]) -> Interval | Absent:
    """Return the 95 % percentile interval of the mean over 10,000 resamples of the seeds; absent below two values.

    >>> bootstrap_interval([0.5])
    Absent(reason='one seed has no spread')
    """
    found = np.asarray(values, dtype=np.float64)
    if found.size < 2:
        return _too_few(found.size)
    means = found[_resamples(found.size)].mean(axis=1)
    low, high = np.percentile(means, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return Interval(float(low), float(high))


def t_interval(values: Sequence[float]) -> Interval | Absent:
    """Return the 95 % interval of the mean by Student's t; absent below two values, and where scipy is not installed.

    >>> low, high = t_interval([0.1, 0.2, 0.3])
    >>> round(low, 4), round(high, 4)
    (-0.0484, 0.4484)
    """
    found = np.asarray(values, dtype=np.float64)
    if found.size < 2:
        return _too_few(found.size)
    if find_spec("scipy") is None:
        return Absent("it needs scipy, which comes with contilab[report]")
    # the quantile of t as scipy.stats has it, without the second that importing scipy.stats takes
    from scipy.special import stdtrit  # type: ignore[import-untyped]  # it ships no types

    half = float(stdtrit(found.size - 1, (1 + CONFIDENCE) / 2) * found.std(ddof=1) / np.sqrt(found.size))
    mean = float(found.mean())
    return Interval(mean - half, mean + half)


def coverage(seeds: int) -> int | None:
    """Return the measured coverage in percent of the percentile interval over *seeds*; None from 10 on.

    Between two measured numbers of seeds the lower one is told.

    >>> coverage(3), coverage(7), coverage(10)
    (76, 86, None)
    """
    known = [share for n, share in COVERAGE.items() if n <= seeds]
    return known[-1] if known and seeds < HONEST_SEEDS else None


@lru_cache(maxsize=8)
def _resamples(size: int) -> Any:
    return np.random.default_rng(GENERATOR).integers(0, size, (RESAMPLES, size))


def _too_few(size: int) -> Absent:
    return Absent("one seed has no spread" if size else "no seed has a value")
