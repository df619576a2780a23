"""The stream of a split benchmark: the classes of a data set, cut into tasks, each with training, validation and test part.

Of each class the validation share is held out first, whatever else is asked for, and `train_per_task` takes from the rest; so a
validation sample is never trained on, and stays one when settings change. No sample is copied: a part is a list of indices.
"""

import numpy as np
import torch
from torch import Tensor

from contilab.data.class_table import ClassTask, class_table, head_rows
from contilab.data.contract import Dataset, Stream, Task
from contilab.data.selection import Indices, even_quotas, first, held_out, ranks
from contilab.spec.sections import Benchmark


def split(dataset: Dataset, spec: Benchmark, *, digest: str, is_flat: bool = True) -> Stream:
    """Return the stream that *spec* makes of *dataset*.

    *digest*: of the data; it decides, with a sample's index, what is held out. The pools are the inputs themselves, of their
    own type; *is_flat*: of shape [N, features].
    """
    table = class_table(spec, dataset.classes)
    row_of, task_of = _lookup(table, dataset.classes)
    train_ranks, test_ranks = (ranks(f"contilab.{part}/1 {digest}", len(getattr(dataset, f"{part}_labels"))) for part in PARTS)
    train, test = _by_class(dataset.train_labels, dataset.classes), _by_class(dataset.test_labels, dataset.classes)
    tasks = []
    for task in table:
        kept, validation = _train_parts([train[label] for label in task.classes], train_ranks, spec)
        tested = _limited([test[label] for label in task.classes], test_ranks, spec.test_per_task)
        tasks.append(Task(task.rows, _index(kept), _index(validation), _index(tested), task.classes))
    return Stream(
        train_inputs=dataset.train_inputs.flatten(1) if is_flat else dataset.train_inputs,
        train_rows=row_of[dataset.train_labels],
        train_tasks=task_of[dataset.train_labels],
        test_inputs=dataset.test_inputs.flatten(1) if is_flat else dataset.test_inputs,
        test_rows=row_of[dataset.test_labels],
        tasks=tuple(tasks),
        head_rows=head_rows(table),
    )


PARTS = ("train", "test")


def _lookup(table: tuple[ClassTask, ...], classes: int) -> tuple[Tensor, Tensor]:
    """Return the head row and the task of each label, both [classes] int64."""
    row_of, task_of = torch.zeros(classes, dtype=torch.int64), torch.zeros(classes, dtype=torch.int64)
    for number, task in enumerate(table):
        for label, row in zip(task.classes, task.rows, strict=True):
            row_of[label], task_of[label] = row, number
    return row_of, task_of


def _by_class(labels: Tensor, classes: int) -> list[Indices]:
    values = labels.numpy()
    return [np.flatnonzero(values == label) for label in range(classes)]


def _train_parts(classes: list[Indices], rank: np.ndarray, spec: Benchmark) -> tuple[list[Indices], list[Indices]]:
    validation = [first(indices, rank, held_out(len(indices), spec.validation)) for indices in classes]
    rest = [np.setdiff1d(indices, out, assume_unique=True) for indices, out in zip(classes, validation, strict=True)]
    return _limited(rest, rank, spec.train_per_task), validation


def _limited(classes: list[Indices], rank: np.ndarray, total: int | str) -> list[Indices]:
    if isinstance(total, str):
        return classes
    quotas = even_quotas([len(indices) for indices in classes], total)
    return [first(indices, rank, quota) for indices, quota in zip(classes, quotas, strict=True)]


def _index(classes: list[Indices]) -> Tensor:
    return torch.from_numpy(np.sort(np.concatenate(classes)))
