"""The contract of data: a data set as arrays, and the stream of tasks that a benchmark makes of it."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from contilab.data.normalisation import Normalisation
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
    """A stream of tasks. A batch is an index: inputs are gathered from the pools, which lie on the device.

    Pools are float32, ready for the model, unless there is a *normalisation*: then they are uint8, stay so on the device, and
    of each batch that is gathered, from either pool, the model sees what `normalisation.apply` returns.
    """

    train_inputs: Tensor  # [N, *shape] float32, or uint8 with a normalisation
    train_rows: Tensor  # [N] int64, the head row of each sample
    train_tasks: Tensor  # [N] int64, the task of each sample
    test_inputs: Tensor  # [M, *shape], of the type of the training inputs
    test_rows: Tensor  # [M] int64
    tasks: tuple[Task, ...]
    head_rows: int  # C
    normalisation: Normalisation | None = None


class Source(NamedTuple):
    """What a benchmark's `ENTRY.make(spec, data=None)` returns for the `benchmark` section *spec* of a run.

    data: name and digest of the data, known without reading them. load(): the stream; DataError if data are missing or wrong.
    input_shape and head_rows are known beforehand too (`plan --dry-run` estimates memory from them). Imported data may be
    imported again after a run was planned: given the *data* of a run, the source is of exactly those, or make raises DataError.
    """

    data: Data
    input_shape: tuple[int, ...]
    head_rows: int
    train_samples: int  # of all tasks, before validation is held out
    test_samples: int
    load: Callable[[], Stream]
    value_bytes: int = 4  # of one value of the pools: 1 if they are uint8
