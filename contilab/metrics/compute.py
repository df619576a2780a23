"""All metrics of one run, from its record."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from contilab.metrics.contract import Absent, Evidence, Metric, Row, Value
from contilab.metrics.scenario import require_one_scenario
from contilab.metrics.table import METRICS, metric
from contilab.records.record import Matrix, Record

if TYPE_CHECKING:
    import numpy as np


Arrays = Mapping[str, "np.ndarray[Any, Any]"]


def compute(
    record: Record, tensors: Arrays | None = None, *, cumulative: Record | None = None, kept: Arrays | None = None
) -> dict[str, Value]:
    """Return every metric of *record* by name, `acc` first, each a number or the reason why there is none.

    A formula that fails has no value, and the others stand; MemoryError, which says nothing of the run, is raised. tensors: the
    predictions of the run (see `contilab.records.outcome.Outcome`). cumulative: the record of the run with method cumulative,
    the same seed and preset; InputError if it is of another scenario. kept: see `contilab.metrics.kept`.

    >>> record = Record(
    ...     scenario="task",
    ...     tasks=1,
    ...     head_rows=2,
    ...     task_rows=[[0, 1]],
    ...     test_samples=[50],
    ...     stages=1,
    ...     accuracy=[[0.9]],
    ...     baseline=[0.5],
    ...     accuracy_all_rows=[[0.9]],
    ... )
    >>> values = compute(record)
    >>> values["acc"], values["bwt"]
    (0.9, Absent(reason='one task only'))
    """
    evidence = evidence_of(record, tensors, cumulative=cumulative, kept=kept)
    return {name: _value(metric(name), evidence) for name in METRICS}


def evidence_of(
    record: Record, tensors: Arrays | None = None, *, cumulative: Record | None = None, kept: Arrays | None = None
) -> Evidence:
    """Return what the formulas may read of *record*."""
    if cumulative:
        require_one_scenario({"the run": record.scenario, "the cumulative run": cumulative.scenario})
    return Evidence(
        scenario=record.scenario,
        tasks=record.tasks,
        stages=record.stages,
        matrix=_rows(record.accuracy),
        all_rows=_rows(record.accuracy_all_rows),
        validation=_rows(record.validation) if record.validation else None,
        baseline=tuple(record.baseline),
        sizes=tuple(record.test_samples),
        task_rows=tuple(map(tuple, record.task_rows)),
        tensors=tensors,
        cost=record.cost,
        cumulative=_diagonal(cumulative) if cumulative else None,
        diverged=record.diverged,
        kept=kept,
    )


def _value(item: Metric, evidence: Evidence) -> Value:
    try:
        return item.of(evidence)
    except MemoryError:  # of the machine: elsewhere the run has a value
        raise
    except Exception as error:  # noqa: BLE001  one of the user's own may raise anything
        return Absent(f"the formula failed: {type(error).__name__}: {error}")


def _rows(matrix: Matrix) -> tuple[Row, ...]:
    return tuple(map(tuple, matrix))


def _diagonal(record: Record) -> Row:
    rows = record.accuracy
    return tuple(rows[task][task] if task < len(rows) else None for task in range(record.tasks))
