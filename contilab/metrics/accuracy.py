"""How right the model is: accuracy over the tasks seen, over all tasks, and on average along the way.

Worked example of all matrix metrics: R = [[.90, .87, .14], [.92, .86, .22], [.64, .88, .90]], n = (100, 300, 200).
"""

from statistics import fmean

from contilab.metrics.contract import Evidence, Metric


def acc_seen_macro(evidence: Evidence) -> float:
    """Return the mean over tasks of the last row: (1/T) sum_j R[T-1, j] (Lopez-Paz & Ranzato 2017).

    >>> R = ((0.90, 0.87, 0.14), (0.92, 0.86, 0.22), (0.64, 0.88, 0.90))
    >>> round(acc_seen_macro(Evidence("task", 3, 3, R)), 6)
    0.806667
    """
    return fmean(evidence.cell(evidence.last, task) for task in range(evidence.tasks))


def acc_seen_micro(evidence: Evidence) -> float:
    """Return the accuracy over all test samples of the tasks seen: sum_j n_j R[T-1, j] / sum_j n_j.

    >>> R = ((0.90, 0.87, 0.14), (0.92, 0.86, 0.22), (0.64, 0.88, 0.90))
    >>> round(acc_seen_micro(Evidence("task", 3, 3, R, sizes=(100, 300, 200))), 6)
    0.846667
    """
    sizes = evidence.sizes or ()
    return sum(size * evidence.cell(evidence.last, task) for task, size in enumerate(sizes)) / sum(sizes)


def acc_all(evidence: Evidence, stage: int | None = None) -> float:
    """Return the accuracy after *stage* (default: the last) over the test samples of all T tasks.

    Class-incremental: argmax over all rows of the head, so classes not yet seen count as errors.

    >>> R = ((0.90, 0.87, 0.14), (0.92, 0.86, 0.22), (0.64, 0.88, 0.90))
    >>> round(acc_all(Evidence("task", 3, 3, R, sizes=(100, 300, 200)), stage=0), 6)
    0.631667
    """
    after = evidence.last if stage is None else stage
    read = evidence.all_rows_cell if evidence.scenario == "class" else evidence.cell
    sizes = evidence.sizes or ()
    return sum(size * read(after, task) for task, size in enumerate(sizes)) / sum(sizes)


def acc_validation(evidence: Evidence) -> float:
    """Return `acc_seen_macro` on the validation samples: what to choose settings by, so that the test samples stay unseen.

    >>> acc_validation(Evidence("task", 2, 2, ((0.9, 0.5), (0.7, 0.8)), validation=((1.0, 0.5), (0.5, 1.0))))
    0.75
    """
    return fmean(evidence.validation_cell(evidence.last, task) for task in range(evidence.tasks))


def aia(evidence: Evidence) -> float:
    """Return the mean of `acc_seen_macro` over the rows (Rebuffi 2017).

    >>> R = ((0.90, 0.87, 0.14), (0.92, 0.86, 0.22), (0.64, 0.88, 0.90))
    >>> round(aia(Evidence("task", 3, 3, R)), 6)
    0.865556
    """
    return fmean(acc_seen_macro(evidence.until(stage)) for stage in range(evidence.stages))


def aia_micro(evidence: Evidence) -> float:
    """Return the mean of `acc_seen_micro` over the rows.

    >>> R = ((0.90, 0.87, 0.14), (0.92, 0.86, 0.22), (0.64, 0.88, 0.90))
    >>> round(aia_micro(Evidence("task", 3, 3, R, sizes=(100, 300, 200))), 6)
    0.873889
    """
    return fmean(acc_seen_micro(evidence.until(stage)) for stage in range(evidence.stages))


def learning_accuracy(evidence: Evidence) -> float:
    """Return the mean accuracy on each task right after it was learned: (1/T) sum_j R[j, j] (Riemer 2019).

    >>> R = ((0.90, 0.87, 0.14), (0.92, 0.86, 0.22), (0.64, 0.88, 0.90))
    >>> round(learning_accuracy(Evidence("task", 3, 3, R)), 6)
    0.886667
    """
    return fmean(evidence.cell(task, task) for task in range(evidence.tasks))


_LOPEZ_PAZ = "Lopez-Paz & Ranzato 2017"

ACC = Metric("acc", acc_seen_macro, "mean accuracy over all tasks after the last one", paper=_LOPEZ_PAZ)
ACC_VALIDATION = Metric("acc_validation", acc_validation, "acc on validation samples, to choose settings by", ("validation",))
ACC_SEEN_MACRO = Metric("acc_seen_macro", acc_seen_macro, "mean accuracy over the tasks seen", paper=_LOPEZ_PAZ)
ACC_SEEN_MICRO = Metric("acc_seen_micro", acc_seen_micro, "accuracy over the test samples of the tasks seen", ("sizes",))
ACC_ALL = Metric(
    "acc_all", acc_all, "accuracy over the test samples of all tasks, every row of the head", ("sizes", "all_rows")
)
AIA = Metric("aia", aia, "acc_seen_macro, averaged over the stages", ("two_rows",), paper="Rebuffi 2017")
AIA_MICRO = Metric("aia_micro", aia_micro, "acc_seen_micro, averaged over the stages", ("two_rows", "sizes"))
LEARNING_ACCURACY = Metric(
    "learning_accuracy", learning_accuracy, "accuracy on each task right after learning it", ("stages",), paper="Riemer 2019"
)
