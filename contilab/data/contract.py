"""The contract of data: a data set as arrays, and the stream of tasks that a benchmark makes of it."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from contilab.spec.sections import Data


class Dataset(NamedTuple):
    """A data set as it is: inputs as published (uint8 images, float vectors) and labels 0 to classes - 1."""

    name: str
    train_inputs: Tensor  # [N, *shape]
    train_labels: Tensor  # [N] int64
    test_inputs: Tensor  # [M, *shape]
    test_labels: Tensor  # [M] int64
    classes: int


class Task(NamedTuple):
    """One task: its head rows and the samples of its parts, as indices into the pools of the stream."""

    rows: tuple[int, ...]  # C_t, ascending
    train: Tensor  # [n] int64, into the training pool
    validation: Tensor  # [v] int64, into the training pool; never trained on
    test: Tensor  # [m] int64, into the test pool
    classes: tuple[int, ...] = ()  # the label in the data set of each of `rows`, in their order: the class order, stored


class Stream(NamedTuple):
    """A stream of tasks. A batch is an index: inputs are gathered from the pools, which lie on the device."""

    train_inputs: Tensor  # [N, *shape] float32, scaled
    train_rows: Tensor  # [N] int64, the head row of each sample
    train_tasks: Tensor  # [N] int64, the task of each sample
    test_inputs: Tensor  # [M, *shape] float32
    test_rows: Tensor  # [M] int64
    tasks: tuple[Task, ...]
    head_rows: int  # C


class Source(NamedTuple):
    """What a benchmark's `ENTRY.make(spec)` returns for the `benchmark` section *spec* of a run.

    data: name and digest of the data, known without having them. load(): the stream; DataError if data are missing or wrong.
    input_shape and head_rows are known beforehand too (`plan --dry-run` estimates memory from them).
    """

    data: Data
    input_shape: tuple[int, ...]
    head_rows: int
    train_samples: int  # of all tasks, before validation is held out
    test_samples: int
    load: Callable[[], Stream]
