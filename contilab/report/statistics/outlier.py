"""Which seeds stand apart from the others: Grubbs' test, repeated while it finds one.

The farthest of n values is an outlier if abs(x - mean) / sd exceeds the bound that the farthest of n normal values exceeds in
one cell of a hundred: (n - 1) / sqrt(n) sqrt(t^2 / (n - 2 + t^2)), with t the upper .01 / (2 n) quantile of Student's t with
n - 2 degrees of freedom (Grubbs 1969; NIST handbook 1.3.5.17.1). So the share of clean cells with a mark is the same for any
number of seeds; 3.5 median absolute deviations, which do not ask for n, mark 21 % of those with five seeds and 10 % of those
with twenty (100,000 normal cells each, 2026-11-30). Two values that stand apart alike can hide each other: the test asks of
one at a time.

The test is of values that never tie, but accuracies are counts of test samples. Where all the others are equal, the farthest
exceeds the bound however near it is, so nothing is marked: there is no spread to measure by. Of normal values rounded to whole
samples one in a hundred or less is then marked, but for spreads below half a sample: 3 % of twenty seeds with .35 samples
(20,000 cells of each of 3 to 20 seeds and spreads of .2 to 100 samples, 2026-11-30).
"""

from collections.abc import Sequence
from importlib.util import find_spec
from math import fsum, sqrt
from statistics import fmean

from contilab.report.statistics.paired import TIE

MARKED = 0.01  # share of clean cells that are marked; chosen, since a table holds many cells
FEWEST = 3  # of two values none is told from the other
TEST = (
    f"Grubbs' test at {f'{MARKED:g}'.removeprefix('0')}, which marks one of {1 / MARKED:.0f} cells of normal values by chance"
)
MEANING = f"outlier: it stands apart from the other seeds of its cell by {TEST}; flagged, never dropped"


def outliers(values: Sequence[float]) -> list[bool]:
    """Return which values stand apart, none where scipy is not installed. They are flagged, never dropped.

    >>> outliers([0.80, 0.81, 0.79, 0.80, 0.20]), outliers([0.80, 0.81, 0.79, 0.80, 0.74])
    ([False, False, False, False, True], [False, False, False, False, False])
    """
    left = list(range(len(values)))
    while (far := _farthest([values[index] for index in left])) is not None:
        del left[far]
    return [index not in left for index in range(len(values))]


def is_testable() -> bool:
    """Whether the quantile of t, which scipy has, is there."""
    return find_spec("scipy") is not None


def critical(size: int) -> float:
    """Return by how many standard deviations the farthest of *size* values must lie off their mean to be an outlier.

    >>> round(critical(3), 4), round(critical(10), 3)
    (1.1547, 2.482)
    """
    # the quantile of t as scipy.stats has it, without the second that importing scipy.stats takes
    from scipy.special import stdtrit  # type: ignore[import-untyped]  # it ships no types

    square = float(stdtrit(size - 2, 1 - MARKED / (2 * size))) ** 2
    return (size - 1) / sqrt(size) * sqrt(square / (size - 2 + square))


def _farthest(values: Sequence[float]) -> int | None:
    """Return the place of the value that stands apart; None if there is none."""
    if len(values) < FEWEST or not is_testable():
        return None
    mean = fmean(values)
    distances = [abs(value - mean) for value in values]
    farthest = distances.index(max(distances))
    others = [*values[:farthest], *values[farthest + 1 :]]
    if max(others) - min(others) <= TIE:
        return None
    sd = sqrt(fsum(distance**2 for distance in distances) / (len(values) - 1))
    return farthest if distances[farthest] > critical(len(values)) * sd else None
