"""One metric over the seeds of a cell: mean, standard deviation and the number of seeds behind both."""

from collections.abc import Iterable
from statistics import fmean, stdev
from typing import NamedTuple

from contilab.metrics.contract import Absent, Value


class Summary(NamedTuple):
    """*mean* and *sd* (with n - 1; None for n < 2) over the *n* seeds that have a value, and *reasons* of the others."""

    mean: float | None
    sd: float | None
    n: int
    reasons: tuple[str, ...]


def summarise(values: Iterable[Value]) -> Summary:
    """Return the summary of one metric over seeds.

    >>> summarise([0.5, 1.0, Absent("the run diverged in task 2 at step 40")])[:3]
    (0.75, 0.3535533905932738, 2)
    """
    items = list(values)
    present = [item for item in items if not isinstance(item, Absent)]
    reasons = tuple(dict.fromkeys(item.reason for item in items if isinstance(item, Absent)))
    mean = fmean(present) if present else None
    return Summary(mean, stdev(present) if len(present) > 1 else None, len(present), reasons)
