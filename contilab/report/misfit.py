"""Whether a record has the shape that its reader relies on.

Digests tell that a result is what was published, not that it is what `contilab.records` describes: another version, another
tool or a hand may have made it. One such run is named as damaged, and every other number of the report stands.
"""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, get_args

from contilab.records.outcome import Arrays
from contilab.records.record import Cost, Record
from contilab.spec.sections import Scenario

PREDICTED = ("prediction", "confidence", "prediction_all_rows")  # tensors [at most S + 1, N]


def misfit(record: Record, tensors: Arrays, scenario: str) -> str:
    """Return the first thing of *record* and *tensors* that is not as planned or described, in a clause; "" if all is."""
    return next(_misfits(record, tensors, scenario), "")


def _misfits(record: Record, tensors: Arrays, scenario: str) -> Iterator[str]:
    if record.scenario not in get_args(Scenario) or record.scenario != scenario:
        yield f"it is {record.scenario}-incremental, and planned as {scenario}-incremental"
    if not _is_count(record.tasks, 1) or record.stages not in (1, record.tasks):
        yield f"it has {record.stages} stages for {record.tasks} tasks"
        return  # what follows is measured by these two
    for name in ("accuracy", "accuracy_all_rows", "accuracy_task_aware", "validation"):
        matrix = getattr(record, name)
        if matrix is not None and not _is_matrix(matrix, record.stages, record.tasks):
            yield f"{name} is no matrix of fractions of {record.stages} x {record.tasks}"
    if not _is_row(record.baseline, record.tasks):
        yield f"baseline is no row of {record.tasks} fractions"
    yield from _misfit_facts(record)
    yield from _misfit_tensors(tensors, record)


def _misfit_facts(record: Record) -> Iterator[str]:
    if not _is_list(record.test_samples, record.tasks) or not all(_is_count(size, 1) for size in record.test_samples):
        yield f"test_samples are no numbers of samples of {record.tasks} tasks"
    if not _is_list(record.task_rows, record.tasks) or not all(isinstance(rows, list) for rows in record.task_rows):
        yield f"task_rows are no rows of {record.tasks} tasks"
    if record.diverged is not None and not _is_place(record.diverged):
        yield "diverged names no task and step"
    if not _is_table(record.notes):
        yield "notes are no table"
    if unknown := next((name for name, value in asdict(record.cost).items() if not _is_cost(name, value)), ""):
        yield f"cost.{unknown} is no number"


def _misfit_tensors(tensors: Arrays, record: Record) -> Iterator[str]:
    samples = sum(size for size in record.test_samples if _is_count(size)) if isinstance(record.test_samples, list) else 0
    if "target" in tensors and tensors["target"].shape != (samples,):
        yield f"target is not of {samples} test samples"
    for name in PREDICTED:
        shape = tensors[name].shape if name in tensors else (0, samples)
        if len(shape) != 2 or shape[0] > record.stages + 1 or shape[1] != samples:
            yield f"{name} is not of {samples} test samples after each stage"


def _is_matrix(matrix: Any, stages: int, tasks: int) -> bool:
    return isinstance(matrix, list) and len(matrix) <= stages and all(_is_row(row, tasks) for row in matrix)


def _is_row(row: Any, tasks: int) -> bool:
    return _is_list(row, tasks) and all(value is None or (_is_number(value) and 0 <= value <= 1) for value in row)


def _is_cost(name: str, value: Any) -> bool:
    if name == "steps_per_second":
        return isinstance(value, list) and all(map(_is_number, value))
    return _is_number(value) and value >= getattr(Cost(), name)  # from 0 on, but a group has one member


def _is_place(place: Any) -> bool:
    return _is_table(place) and _is_count(place.get("task")) and _is_count(place.get("step"))


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _is_list(value: Any, size: int) -> bool:
    return isinstance(value, list) and len(value) == size


def _is_count(value: Any, least: int = 0) -> bool:
    return type(value) is int and value >= least


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max
