"""What one task does to another: backward and forward transfer, and what a method gives up to learn (intransigence)."""

from statistics import fmean

from contilab.metrics.contract import Evidence, Metric, Missing


def bwt(evidence: Evidence) -> float:
    """Return backward transfer: (1/(T-1)) sum_{j<T-1} (R[T-1, j] - R[j, j]) (Lopez-Paz & Ranzato 2017).

    >>> R = ((0.90, 0.87, 0.14), (0.92, 0.86, 0.22), (0.64, 0.88, 0.90))
    >>> round(bwt(Evidence("task", 3, 3, R)), 6)
    -0.12
    """
    return fmean(evidence.cell(evidence.last, task) - evidence.cell(task, task) for task in range(evidence.tasks - 1))


def bwt_all_pairs(evidence: Evidence) -> float:
    """Return backward transfer over all rows: 2/(T(T-1)) sum_{j<i} (R[i, j] - R[j, j]) (Diaz-Rodriguez 2018).

    >>> R = ((0.90, 0.87, 0.14), (0.92, 0.86, 0.22), (0.64, 0.88, 0.90))
    >>> round(bwt_all_pairs(Evidence("task", 3, 3, R)), 6)
    -0.073333
    """
    pairs = ((after, task) for after in range(evidence.tasks) for task in range(after))
    return fmean(evidence.cell(after, task) - evidence.cell(task, task) for after, task in pairs)


def fwt(evidence: Evidence) -> float:
    """Return forward transfer: (1/(T-1)) sum_{j>=1} (R[j-1, j] - b_j) (Lopez-Paz & Ranzato 2017).

    >>> R = ((0.90, 0.87, 0.14), (0.92, 0.86, 0.22), (0.64, 0.88, 0.90))
    >>> round(fwt(Evidence("task", 3, 3, R, baseline=(0.08, 0.11, 0.12))), 6)
    0.43
    """
    return fmean(evidence.cell(task - 1, task) - evidence.untrained(task) for task in range(1, evidence.tasks))


def fwt_no_baseline(evidence: Evidence) -> float:
    """Return accuracy on each task just before it is learned: (1/(T-1)) sum_{j>=1} R[j-1, j] (Diaz-Rodriguez 2018).

    As in Continuum: the untrained model is not subtracted.

    >>> R = ((0.90, 0.87, 0.14), (0.92, 0.86, 0.22), (0.64, 0.88, 0.90))
    >>> round(fwt_no_baseline(Evidence("task", 3, 3, R)), 6)
    0.545
    """
    return fmean(evidence.cell(task - 1, task) for task in range(1, evidence.tasks))


def intransigence(evidence: Evidence) -> float:
    """Return mean_j (a*_j - R[j, j]), a*_j the diagonal of the cumulative run of the same seed (Chaudhry 2018).

    >>> R = ((0.90, 0.87, 0.14), (0.92, 0.86, 0.22), (0.64, 0.88, 0.90))
    >>> round(intransigence(Evidence("task", 3, 3, R, cumulative=(0.93, 0.90, 0.95))), 6)
    0.04
    """
    return fmean(_reference(evidence, task) - evidence.cell(task, task) for task in range(evidence.tasks))


def _reference(evidence: Evidence, task: int) -> float:
    value = evidence.cumulative[task] if evidence.cumulative else None
    if value is None:
        raise Missing(f"the cumulative run was not measured on task {task}")
    return value


_LOPEZ_PAZ, _DIAZ = "Lopez-Paz & Ranzato 2017", "Diaz-Rodriguez 2018"
_PAST, _FUTURE = ("stages", "two_tasks"), ("stages", "two_tasks", "future")

BWT = Metric("bwt", bwt, "change on earlier tasks from learning them to the end", _PAST, "difference", _LOPEZ_PAZ)
BWT_ALL_PAIRS = Metric("bwt_all_pairs", bwt_all_pairs, "the same change, over all later rows", _PAST, "difference", _DIAZ)
FWT = Metric("fwt", fwt, "gain on a task before it is learned", (*_FUTURE, "baseline"), "difference", _LOPEZ_PAZ)
FWT_NO_BASELINE = Metric("fwt_no_baseline", fwt_no_baseline, "accuracy on a task before it is learned", _FUTURE, paper=_DIAZ)
INTRANSIGENCE = Metric(
    "intransigence",
    intransigence,
    "what cumulative training learns of a task beyond the method",
    ("stages", "two_tasks", "cumulative"),
    "difference",
    "Chaudhry 2018",
    higher_is_better=False,
)
