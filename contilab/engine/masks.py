"""Which head rows are active: the training mask S(x) of a sample and the evaluation mask of a task.

T tasks, C head rows. A stage is what is trained in one go: task *stage*, or all tasks at once in joint training.
"""

import torch
from torch import Tensor

from contilab.spec.sections import Benchmark

Rows = tuple[tuple[int, ...], ...]  # the head rows C_t of each task


def select(rows: tuple[int, ...], head_rows: int) -> Tensor:
    """Return the mask [C] in which exactly *rows* are active."""
    mask = torch.zeros(head_rows, dtype=torch.bool)
    mask[list(rows)] = True
    return mask


def seen(rows: Rows, head_rows: int, *, last: int) -> Tensor:
    """Return the mask [C] of C_<=last, the rows of all tasks up to *last*."""
    return select(tuple(row for task in rows[: last + 1] for row in task), head_rows)


def training_masks(benchmark: Benchmark, rows: Rows, head_rows: int, *, last: int) -> Tensor:
    """Return the training masks [T, C] by the sample's own task, while the latest task in training is *last*."""
    if benchmark.scenario == "task":
        return torch.stack([select(task, head_rows) for task in rows])
    if benchmark.scenario == "class" and benchmark.class_mask == "seen":
        return seen(rows, head_rows, last=last).repeat(len(rows), 1)
    return torch.ones(len(rows), head_rows, dtype=torch.bool)


def groups(benchmark: Benchmark, rows: Rows, head_rows: int, *, last: int) -> Tensor:
    """Return the sets of rows [T, C] that compete with each other in what was learned up to task *last*; other lines are empty.

    Task-incremental the rows of each task, class-incremental one set of all rows seen, domain-incremental one of all rows.
    """
    found = torch.zeros(len(rows), head_rows, dtype=torch.bool)
    if benchmark.scenario == "task":
        for task in range(last + 1):
            found[task] = select(rows[task], head_rows)
    elif benchmark.scenario == "class":
        found[0] = seen(rows, head_rows, last=last)
    else:
        found[0] = True
    return found


def evaluation_mask(benchmark: Benchmark, rows: Rows, head_rows: int, *, task: int, last: int) -> Tensor | None:
    """Return the mask [C] under which *task* is tested once *last* is the latest task learned (-1: none).

    None if there is no such measurement: in class-incremental learning the classes of later tasks are not yet seen. The
    untrained model is measured under the mask of each task.
    """
    if benchmark.scenario == "domain":
        return torch.ones(head_rows, dtype=torch.bool)
    if benchmark.scenario == "task" or last < 0:
        return select(rows[task], head_rows)
    return seen(rows, head_rows, last=last) if task <= last else None
