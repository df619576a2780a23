"""The matrix metrics of any accuracy matrix, for notebooks and for results of other tools."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, get_args

from contilab.errors import InputError
from contilab.metrics.contract import Evidence, Metric, Row, Value
from contilab.metrics.table import METRICS, metric
from contilab.spec.sections import Scenario


def from_matrix(
    R: Any,  # noqa: N803 - the letter of every paper
    *,
    scenario: Scenario,
    baseline: Any = None,
    sizes: Sequence[int] | None = None,
    all_rows: Any = None,
    cumulative: Any = None,
) -> dict[str, Value]:
    """Return all matrix metrics of *R* by name, `acc` first, each a number or an `Absent` with its reason.

    R: [T, T] accuracies as fractions, R[i][j] on task j after task i, nested lists or an array, None or nan where not
    measured; [1, T] for joint training. A class-incremental matrix has nothing above its diagonal (None, nan or 0).
    baseline: [T] accuracies of the untrained model. sizes: [T] test samples per task. all_rows: as R, with the argmax over
    every row of the head. cumulative: [T], R[j][j] of the cumulative run of the same seed. Inputs are not changed.
    InputError for another shape, values outside 0 to 1, an unknown scenario, and a transposed class-incremental matrix.

    >>> R = [[0.90, 0.87, 0.14], [0.92, 0.86, 0.22], [0.64, 0.88, 0.90]]
    >>> values = from_matrix(R, baseline=[0.08, 0.11, 0.12], scenario="task")
    >>> round(values["acc"], 6), round(values["bwt"], 6), values["acc_seen_micro"]
    (0.806667, -0.12, Absent(reason='the number of test samples of each task is not known'))
    """
    if scenario not in get_args(Scenario):
        raise InputError("scenario", f"{scenario!r} is no scenario", hint='write "task", "class" or "domain"')
    matrix = _matrix("R", R)
    tasks = len(matrix[0])
    if scenario == "class" and len(matrix) > 1:
        matrix = _without_unseen(matrix)
    evidence = Evidence(
        scenario=scenario,
        tasks=tasks,
        stages=len(matrix),
        matrix=matrix,
        all_rows=None if all_rows is None else _same_shape("all_rows", _matrix("all_rows", all_rows), matrix),
        baseline=None if baseline is None else _row("baseline", baseline, tasks),
        sizes=None if sizes is None else _sizes(sizes, tasks),
        cumulative=None if cumulative is None else _row("cumulative", cumulative, tasks),
    )
    return {item.name: item.of(evidence) for item in matrix_metrics()}


def matrix_metrics() -> list[Metric]:
    """Return the metrics that need nothing but the matrix and its companions."""
    return [item for item in map(metric, METRICS) if not {"tensors", "cost", "validation"} & set(item.needs)]


def _matrix(place: str, values: Any) -> tuple[Row, ...]:
    rows = _items(place, values)
    if not rows:
        raise InputError(place, "the matrix is empty", hint="give one row per task, each with one accuracy per task")
    tasks = len(_items(f"{place}[0]", rows[0]))
    matrix = tuple(_row(f"{place}[{index}]", row, tasks) for index, row in enumerate(rows))
    if tasks == 0 or len(matrix) not in (1, tasks):
        raise InputError(
            place,
            f"the matrix has {len(matrix)} rows and {tasks} columns",
            hint="it must be square, or have one row (joint training); write None where nothing was measured",
        )
    return matrix


def _row(place: str, values: Any, tasks: int) -> Row:
    items = _items(place, values)
    if len(items) != tasks:
        raise InputError(place, f"it has {len(items)} values, not {tasks}", hint="write None where nothing was measured")
    return tuple(_cell(f"{place}[{index}]", item) for index, item in enumerate(items))


def _cell(place: str, value: Any) -> float | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(place, f"{value!r} is not a number", hint="write accuracies as fractions, None where not measured")
    if not 0 <= value <= 1:
        raise InputError(place, f"{value} is outside 0 to 1", hint="accuracies are fractions: divide percentages by 100")
    return float(value)


def _items(place: str, values: Any) -> list[Any]:
    plain = values.tolist() if hasattr(values, "tolist") else values  # arrays and tensors give Python numbers, shape kept
    if isinstance(plain, str | bytes) or not isinstance(plain, Iterable):
        raise InputError(place, f"{values!r} is not a list of values", hint="give nested lists or a two-dimensional array")
    return [item.item() if getattr(item, "shape", None) == () else item for item in plain]


def _sizes(sizes: Sequence[int], tasks: int) -> tuple[int, ...]:
    items = _items("sizes", sizes)
    if len(items) != tasks:
        raise InputError("sizes", f"it has {len(items)} values, not {tasks}", hint="give the test samples of each task")
    for index, size in enumerate(items):
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InputError(f"sizes[{index}]", f"{size!r} is no number of samples", hint="give whole numbers from 1")
    return tuple(items)


def _same_shape(place: str, matrix: tuple[Row, ...], reference: tuple[Row, ...]) -> tuple[Row, ...]:
    shapes = [(len(rows), len(rows[0])) for rows in (matrix, reference)]
    if shapes[0] != shapes[1]:
        raise InputError(place, f"its shape is {shapes[0]}, that of R is {shapes[1]}", hint="give one cell per cell of R")
    return matrix


def _without_unseen(matrix: tuple[Row, ...]) -> tuple[Row, ...]:
    """Return *matrix* with nothing above its diagonal; other tools write 0 there, which says as little as None."""
    unseen = [(after, on) for after, row in enumerate(matrix) for on in range(after + 1, len(row)) if row[on]]
    if unseen:
        after, on = unseen[0]
        below = [row[on] for after, row in enumerate(matrix) for on in range(after)]
        hint = "rows are after_task, columns are test_task; a class is measured once it was seen"
        transposed = "the matrix is transposed: " if not any(below) else ""
        raise InputError(
            "R", f"{transposed}R[{after}][{on}] is measured, but task {on} is not yet seen after task {after}", hint=hint
        )
    return tuple(tuple(row[: after + 1]) + (None,) * (len(row) - after - 1) for after, row in enumerate(matrix))
