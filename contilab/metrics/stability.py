"""What a switch of tasks costs for a while: the stability gap and the worst case (De Lange 2023).

Worked example of all functions: task 0 stands at .90 before the switch, then at .50, .30, .62, .80, .84 and .86 after 1, 2,
3, 5, 8 and 13 steps of task 1, which ends at .94.
"""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from contilab.metrics.contract import Metric, Missing
from contilab.metrics.stream import Stream, stream_of

RECOVERED = 0.95  # of the accuracy before the switch; chosen
NOTHING_LEFT = 0.01  # accuracy before a switch below which a task has nothing to bring back; chosen


def min_acc(stream: Stream) -> float:
    """Return mean_{j<k-1} of the lowest accuracy on task j at any evaluation after its end (De Lange 2023).

    >>> min_acc(EXAMPLE)
    0.3
    """
    if stream.tasks < 2:
        raise Missing("one task only")
    later = ((task, range(task + 1, stream.tasks)) for task in range(stream.tasks - 1))
    return fmean(float(stream.series(task, tasks).min()) for task, tasks in later)


def wc_acc(stream: Stream) -> float:
    """Return (1/k) a_{k-1}(now) + (1 - 1/k) min_acc, the worst case over what was learned (De Lange 2023).

    >>> round(wc_acc(EXAMPLE), 6)
    0.62
    """
    last = stream.tasks - 1
    return stream.end(last, last) / stream.tasks + (1 - 1 / stream.tasks) * min_acc(stream)


def largest_drop(series: Sequence[float] | Any, window: int) -> float:
    """Return the largest a(m) - a(n), m < n, within any *window* consecutive evaluations; at least 0.

    >>> a = [0.90, 0.50, 0.30, 0.62, 0.80, 0.84, 0.86]
    >>> [round(largest_drop(a, window), 6) for window in (2, 3, 4)]
    [0.4, 0.6, 0.6]
    """
    values = np.asarray(series, dtype=np.float64)
    reach = min(window, values.size) - 1  # how many evaluations after each one count
    if reach < 1:
        return 0.0
    later = np.append(values[1:], np.full(reach - 1, np.inf))
    lowest_after = sliding_window_view(later, reach).min(axis=1)
    return max(0.0, float(np.max(values[:-1] - lowest_after)))


def largest_rise(series: Sequence[float] | Any, window: int) -> float:
    """Return the largest a(n) - a(m), m < n, within any *window* consecutive evaluations; at least 0.

    >>> a = [0.90, 0.50, 0.30, 0.62, 0.80, 0.84, 0.86]
    >>> [round(largest_rise(a, window), 6) for window in (2, 3, 4)]
    [0.32, 0.5, 0.54]
    """
    return largest_drop(-np.asarray(series, dtype=np.float64), window)


def windowed(stream: Stream, window: int, largest: Callable[[Any, int], float]) -> float:
    """Return *largest* within *window* evaluations, each task since it began, averaged over the tasks seen (De Lange 2023).

    >>> windowed(EXAMPLE, 2, largest_drop)  # task 1 has one evaluation, so no drop
    0.2
    """
    return fmean(largest(stream.series(task, range(task, stream.tasks)), window) for task in range(stream.tasks))


def stability_gap(stream: Stream) -> float:
    """Return the mean over switches and earlier tasks of a_j(before the switch) - min a_j(during the new task).

    >>> round(stability_gap(EXAMPLE), 6)
    0.6
    """
    return _mean(stream.before(on, switch) - lowest(stream, on, switch) for on, switch in stream.pairs())


def gap_recovered(stream: Stream) -> float:
    """Return the mean of a_j(end of the new task) - min a_j(during it): the part of the gap that passes (chosen).

    >>> round(gap_recovered(EXAMPLE), 6)
    0.56
    """
    return _mean(stream.end(on, switch) - lowest(stream, on, switch) for on, switch in stream.pairs())


def recovery_steps(stream: Stream) -> float:
    """Return the mean steps from a switch until 95 % of the accuracy before it is back, over those that come back (chosen).

    Tasks that stand below .01 before the switch are left out: nothing is nothing's 95 %, so they would come back at once.

    >>> recovery_steps(EXAMPLE)  # the threshold is .855
    13.0
    """
    found = [steps for steps in _recoveries(stream) if steps is not None]
    if not found:
        raise Missing("no earlier task recovered from a switch")
    return fmean(found)


def never_recovered_share(stream: Stream) -> float:
    """Return the share of switches and earlier tasks that do not come back to 95 % of the accuracy before (chosen).

    Tasks that stand below .01 before the switch are left out, as in `recovery_steps`.

    >>> never_recovered_share(EXAMPLE)
    0.0
    """
    return _mean(steps is None for steps in _recoveries(stream))


def anytime_acc(stream: Stream) -> float:
    """Return the mean over evaluations of the mean accuracy on the tasks begun (Caccia 2022).

    >>> round(anytime_acc(EXAMPLE), 6)  # task 1 was measured at its end only
    0.694286
    """
    begun = np.arange(stream.accuracy.shape[1]) <= stream.task[:, None]
    table = np.where(begun & ~stream.is_old_mask[:, None], stream.accuracy.astype(np.float64), np.nan)
    rows = table[~np.isnan(table).all(axis=1)]
    if not len(rows):
        raise Missing("the stream holds no evaluation")
    return float(np.nanmean(rows, axis=1).mean())


def lowest(stream: Stream, on: int, during: int) -> float:
    """Return the lowest accuracy on task *on* while task *during* was trained."""
    return float(stream.series(on, range(during, during + 1)).min())


def _recoveries(stream: Stream) -> list[int | None]:
    pairs = list(stream.pairs())
    found = [_recovery(stream, on, switch) for on, switch in pairs if stream.before(on, switch) >= NOTHING_LEFT]
    if pairs and not found:
        raise Missing("no earlier task had anything left to lose")
    return found


def _recovery(stream: Stream, on: int, switch: int) -> int | None:
    """Return the step of the first evaluation from the minimum on that is at the threshold; None if there is none."""
    during = range(switch, switch + 1)
    values, steps = stream.series(on, during), stream.step[stream.rows(on, during)]
    back = np.flatnonzero(values >= RECOVERED * stream.before(on, switch))
    after = back[back >= np.argmin(values)]
    return int(steps[after[0]]) if after.size else None


def _mean(values: Any) -> float:
    found = [float(value) for value in values]
    if not found:
        raise Missing("one task only")
    return fmean(found)


EXAMPLE = Stream(
    accuracy=np.array([[0.9, np.nan], *([a, np.nan] for a in (0.5, 0.3, 0.62, 0.8, 0.84)), [0.86, 0.94]]),
    task=np.array([0, 1, 1, 1, 1, 1, 1]),
    step=np.array([9, 1, 2, 3, 5, 8, 13]),
    is_old_mask=np.zeros(7, dtype=bool),
)


def _metric(name: str, function: Callable[[Stream], float], summary: str, paper: str = "De Lange 2023", **facts: Any) -> Metric:
    described = {"unit": "fraction", "tier": "extended", **facts}
    return Metric(name, lambda e: function(stream_of(e)), summary, ("stages", "tensors"), paper=paper, **described)


_LOSS: dict[str, Any] = {"unit": "difference", "higher_is_better": False}
_RECOVERY: dict[str, Any] = {"paper": "", "higher_is_better": False, "version": 2}  # since 2 without what was lost before

MIN_ACC = _metric("min_acc", min_acc, "lowest accuracy on each earlier task after it was learned")
WC_ACC = _metric("wc_acc", wc_acc, "worst-case accuracy: of the newest task now, of the others at their lowest")
WF_10 = _metric("wf_10", lambda s: windowed(s, 10, largest_drop), "largest drop within 10 evaluations", **_LOSS)
WF_100 = _metric("wf_100", lambda s: windowed(s, 100, largest_drop), "largest drop within 100 evaluations", **_LOSS)
WP_10 = _metric("wp_10", lambda s: windowed(s, 10, largest_rise), "largest rise within 10 evaluations", unit="difference")
WP_100 = _metric("wp_100", lambda s: windowed(s, 100, largest_rise), "largest rise within 100 evaluations", unit="difference")
STABILITY_GAP = _metric(
    "stability_gap",
    stability_gap,
    "drop on earlier tasks while a new one is learned; small as well where little is left to lose",
    **_LOSS,
)
GAP_RECOVERED = _metric("gap_recovered", gap_recovered, "the part of that drop that passes", "", unit="difference")
RECOVERY_STEPS = _metric(
    "recovery_steps",
    recovery_steps,
    "steps until 95 % is back, where it comes back; tasks that stood below .01 are left out",
    unit="steps",
    **_RECOVERY,
)
NEVER_RECOVERED_SHARE = _metric(
    "never_recovered_share",
    never_recovered_share,
    "share of drops that do not come back to 95 %; tasks that stood below .01 are left out",
    **_RECOVERY,
)
ANYTIME_ACC = _metric("anytime_acc", anytime_acc, "accuracy on the tasks begun, over all evaluations", "Caccia 2022")
