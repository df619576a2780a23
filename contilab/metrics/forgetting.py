"""How much is lost, in the readings found in papers and frameworks; each has its own name.

They differ in the rows whose maximum counts as "what was known" of task j, with the last row T-1 subtracted.
"""

from collections.abc import Callable
from statistics import fmean

from contilab.metrics.contract import Evidence, Metric, Missing

Rows = Callable[[Evidence, int], range]  # the rows that count as "before" for task j


def _learned_rows(evidence: Evidence, task: int) -> range:
    return range(task, evidence.last)


def _all_rows(evidence: Evidence, task: int) -> range:  # noqa: ARG001 - one signature for all readings
    return range(evidence.last)


def _first_row(evidence: Evidence, task: int) -> range:  # noqa: ARG001 - one signature for all readings
    return range(task, task + 1)


def _rows_with_final(evidence: Evidence, task: int) -> range:
    return range(task, evidence.tasks)


def best_before(evidence: Evidence, task: int, rows: Rows = _learned_rows) -> float:
    """Return the best accuracy on *task* among the *rows* that count."""
    return max(evidence.cell(after, task) for after in rows(evidence, task))


def per_task(evidence: Evidence, rows: Rows = _learned_rows) -> list[float]:
    """Return f_j for each task but the last, in the reading that *rows* gives.

    >>> R = ((0.90, 0.87, 0.14), (0.92, 0.86, 0.22), (0.64, 0.88, 0.90))
    >>> [round(value, 6) for value in per_task(Evidence("task", 3, 3, R))]
    [0.28, -0.02]
    """
    return [best_before(evidence, task, rows) - evidence.cell(evidence.last, task) for task in range(evidence.tasks - 1)]


def forgetting(evidence: Evidence) -> float:
    """Return mean_{j<T-1} f_j, f_j = max_{j<=l<=T-2} R[l, j] - R[T-1, j] (Chaudhry 2018, usual reading).

    >>> R = ((0.90, 0.87, 0.14), (0.92, 0.86, 0.22), (0.64, 0.88, 0.90))
    >>> round(forgetting(Evidence("task", 3, 3, R)), 6)
    0.13
    """
    return fmean(per_task(evidence))


def forgetting_all_rows(evidence: Evidence) -> float:
    """Return forgetting with the maximum over 0 <= l <= T-2, the paper's literal form (Chaudhry 2018).

    >>> R = ((0.90, 0.87, 0.14), (0.92, 0.86, 0.22), (0.64, 0.88, 0.90))
    >>> round(forgetting_all_rows(Evidence("task", 3, 3, R)), 6)
    0.135
    """
    return fmean(per_task(evidence, _all_rows))


def forgetting_first_last(evidence: Evidence) -> float:
    """Return mean_{j<T-1} (R[j, j] - R[T-1, j]), which is minus `bwt` (as in Avalanche).

    >>> R = ((0.90, 0.87, 0.14), (0.92, 0.86, 0.22), (0.64, 0.88, 0.90))
    >>> round(forgetting_first_last(Evidence("task", 3, 3, R)), 6)
    0.12
    """
    return fmean(per_task(evidence, _first_row))


def forgetting_max_incl_final(evidence: Evidence) -> float:
    """Return forgetting with the maximum over j <= l <= T-1, so it is never negative (as in Mammoth and PyCIL).

    >>> R = ((0.90, 0.87, 0.14), (0.92, 0.86, 0.22), (0.64, 0.88, 0.90))
    >>> round(forgetting_max_incl_final(Evidence("task", 3, 3, R)), 6)
    0.14
    """
    return fmean(per_task(evidence, _rows_with_final))


def relative_forgetting(evidence: Evidence) -> float:
    """Return mean_{j<T-1} f_j / max_{j<=l<=T-2} R[l, j]; absent where that maximum is 0.

    >>> R = ((0.90, 0.87, 0.14), (0.92, 0.86, 0.22), (0.64, 0.88, 0.90))
    >>> round(relative_forgetting(Evidence("task", 3, 3, R)), 6)
    0.140546
    """
    best = [best_before(evidence, task) for task in range(evidence.tasks - 1)]
    if 0 in best:
        raise Missing(f"the best accuracy on task {best.index(0)} is 0")
    return fmean(lost / most for lost, most in zip(per_task(evidence), best, strict=True))


def _metric(name: str, function: Callable[[Evidence], float], summary: str, paper: str, *needs: str) -> Metric:
    return Metric(name, function, summary, ("stages", "two_tasks", *needs), "difference", paper, higher_is_better=False)


_CHAUDHRY = "Chaudhry 2018"

FORGETTING = _metric("forgetting", forgetting, "loss on earlier tasks from their best since learned", _CHAUDHRY)
FORGETTING_ALL_ROWS = _metric(
    "forgetting_all_rows", forgetting_all_rows, "loss from the best of all earlier rows", _CHAUDHRY, "future"
)
FORGETTING_FIRST_LAST = _metric("forgetting_first_last", forgetting_first_last, "loss since learned, minus bwt", "Avalanche")
FORGETTING_MAX_INCL_FINAL = _metric(
    "forgetting_max_incl_final", forgetting_max_incl_final, "loss from the best, the last row included", "Mammoth, PyCIL"
)
RELATIVE_FORGETTING = _metric("relative_forgetting", relative_forgetting, "forgetting as a share of the best", "")
