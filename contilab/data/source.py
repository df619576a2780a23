"""The source of a split benchmark: what is known of its data beforehand, and how to get the stream."""

from collections.abc import Callable
from math import prod
from typing import NamedTuple

from torch import Tensor

from contilab.data.class_table import ClassTask, class_table, head_rows
from contilab.data.contract import Dataset, Source, Stream
from contilab.data.image_set import ImageSet
from contilab.data.normalisation import PIXELS, Normalisation, of_samples
from contilab.data.origin import Origin, origin, refuse_foreign
from contilab.data.published import KnownSet
from contilab.data.split import split
from contilab.errors import DataError, InputError
from contilab.spec.sections import Benchmark, Data


class Facts(NamedTuple):
    """What is known of a data set without having it. *features*: values of one input; *normalisation*: of 8-bit ones."""

    data: Data
    features: int
    classes: int
    train_samples: int
    test_samples: int
    normalisation: Normalisation | None = None


def source(facts: Facts, spec: Benchmark, read: Callable[[], Dataset]) -> Source:
    """Return the source of *spec* over the data that *read* returns, as flat inputs.

    The numbers of samples are the most there can be: a task that has fewer than `train_per_task` gives all it has. Raises
    InputError if the data cannot be cut into its tasks.
    """

    def load() -> Stream:
        return split(read(), spec, digest=facts.data.digest)._replace(normalisation=facts.normalisation)

    return Source(
        data=facts.data,
        input_shape=(facts.features,),
        head_rows=head_rows(class_table(spec, facts.classes)),
        train_samples=at_most(facts.train_samples, spec.train_per_task, spec.tasks),
        test_samples=at_most(facts.test_samples, spec.test_per_task, spec.tasks),
        load=load,
        value_bytes=4 if facts.normalisation is None else 1,
    )


def fixed_source(facts: Facts, spec: Benchmark, read: Callable[[], Dataset], data: Data | None) -> Source:
    """Return the source of *spec* over data that come with the package; DataError if *data*, of a run, are others."""
    refuse_foreign(spec, "first_task")
    if data is not None and data.digest != facts.data.digest:
        problem = f"this version has other data: expected the digest {data.digest[:12]}, found {facts.data.digest[:12]}"
        raise DataError(spec.name, problem, hint="use the version that the run was planned with, or plan it again")
    return source(facts, spec, read)


def image_source(images: ImageSet, spec: Benchmark, data: Data | None = None) -> Source:
    """Return the source of *spec* over 8-bit images as flat inputs of 0 to 1; files are looked for when it is loaded."""
    refuse_foreign(spec, "data", "first_task")
    found = origin(spec, data, images)
    facts = Facts(
        found.data,
        prod(images.image_shape),
        images.classes,
        images.train_samples,
        images.test_samples,
        normalisation=PIXELS,
    )
    return source(facts, spec, found.read)


def raw_source(
    spec: Benchmark, data: Data | None, known: KnownSet | None = None, normalisation: Normalisation | None = None
) -> Source:
    """Return the source of *spec* over imported data, whose inputs keep their shape, and bytes stay bytes.

    *normalisation*: of 8-bit images; without it they get that of the training part of the first task. Floats are as they are.
    Raises InputError if the data cannot be cut into its tasks, or one of these would have no test samples.
    """
    refuse_foreign(spec, "data", "first_task")
    found = origin(spec, data, known)
    shape = found.shape
    table = class_table(spec, shape.classes)
    if found.test_labels:
        labels = found.test_labels().clamp(0, shape.classes - 1)  # damage is told of when all is read
        _check_tests(found.data.name, table, labels.bincount(minlength=shape.classes))
    return Source(
        data=found.data,
        input_shape=shape.input_shape,
        head_rows=head_rows(table),
        train_samples=at_most(shape.train_samples, spec.train_per_task, spec.tasks),
        test_samples=at_most(shape.test_samples, spec.test_per_task, spec.tasks),
        load=lambda: _raw_stream(found, spec, normalisation),
        value_bytes=1 if shape.is_bytes else 4,
    )


def _check_tests(name: str, table: tuple[ClassTask, ...], counts: Tensor) -> None:
    """Raise InputError if a task of *table* has no test samples; *counts*: [classes] those of each class."""
    untested = next((task.classes for task in table if not counts[list(task.classes)].any()), ())
    if untested:
        labels = ", ".join(map(str, untested[:8])) + (" and others" if len(untested) > 8 else "")
        problem = f"{name} has no test samples of the labels {labels}, which are all that one task has"
        raise InputError("benchmark.tasks", problem, hint="import data with test samples of them, or set fewer tasks")


def _raw_stream(found: Origin, spec: Benchmark, normalisation: Normalisation | None) -> Stream:
    stream = split(found.read(), spec, digest=found.data.digest, is_flat=False)
    if not found.shape.is_bytes:
        return stream
    return stream._replace(normalisation=normalisation or of_samples(stream.train_inputs, stream.tasks[0].train))


def at_most(samples: int, per_task: int | str, tasks: int) -> int:
    """Return how many of *samples* are used at most if each of *tasks* tasks uses *per_task*."""
    return samples if isinstance(per_task, str) else min(samples, per_task * tasks)
