"""The source of a split benchmark: what is known of its data beforehand, and how to get the stream."""

import os
from collections.abc import Callable
from typing import NamedTuple

from contilab.data.class_table import class_table, head_rows
from contilab.data.contract import Dataset, Source, Stream
from contilab.data.folders import locate
from contilab.data.image_set import ImageSet, read_dataset
from contilab.data.published import PUBLISHED
from contilab.data.split import split
from contilab.spec.sections import Benchmark, Data


class Facts(NamedTuple):
    """What is known of a data set without having it. *features*: values of one input. *scale*: inputs are divided by it."""

    data: Data
    features: int
    classes: int
    train_samples: int
    test_samples: int
    scale: float = 1


def source(facts: Facts, spec: Benchmark, read: Callable[[], Dataset]) -> Source:
    """Return the source of *spec* over the data that *read* returns; InputError if they cannot be cut into its tasks.

    The numbers of samples are the most there can be: a task that has fewer than `train_per_task` gives all it has.
    """

    def load() -> Stream:
        return split(read(), spec, digest=facts.data.digest, scale=facts.scale)

    return Source(
        data=facts.data,
        input_shape=(facts.features,),
        head_rows=head_rows(class_table(spec, facts.classes)),
        train_samples=_at_most(facts.train_samples, spec.train_per_task, spec.tasks),
        test_samples=_at_most(facts.test_samples, spec.test_per_task, spec.tasks),
        load=load,
    )


def image_source(images: ImageSet, spec: Benchmark) -> Source:
    """Return the source of *spec* over a published set of 8-bit images; its files are looked for when it is loaded."""

    def read() -> Dataset:
        return read_dataset(images, locate(images, os.environ, PUBLISHED))

    height, width = images.image_shape
    data = Data(name=images.name, digest=images.digest)
    facts = Facts(data, height * width, images.classes, images.train_samples, images.test_samples, scale=255)
    return source(facts, spec, read)


def _at_most(samples: int, per_task: int | str, tasks: int) -> int:
    return samples if isinstance(per_task, str) else min(samples, per_task * tasks)
