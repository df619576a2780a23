"""The stream of a benchmark whose tasks show the same images, each task in its own way; all tasks share the head rows.

What a task trains on, holds out and tests on is the same choice of images in every task, so an image that is held out is never
trained on in any form. Pools hold a copy per task, as bytes.
"""

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contilab.data.class_table import class_table, head_rows
from contilab.data.contract import Source, Stream
from contilab.data.image_set import ImageSet
from contilab.data.normalisation import PIXELS
from contilab.data.origin import Origin, origin
from contilab.data.source import at_most
from contilab.data.split import split
from contilab.errors import InputError
from contilab.spec.sections import Benchmark, Data

Images = NDArray[np.uint8]
Show = Callable[[int, Images], Images]  # task, images [n, H, W] -> what the task shows of them [n, H x W]


def transformed_source(images: ImageSet, spec: Benchmark, data: Data | None, show_of: Callable[[str, int], Show]) -> Source:
    """Return the source of *spec*, each task of which shows *images* in its own way.

    show_of(digest, features) returns how. Raises InputError for another scenario than the domain-incremental one.
    """
    if spec.scenario != "domain":
        hint = f'set benchmark.scenario = "domain": every task of {spec.name} has the same classes'
        raise InputError("benchmark.scenario", f'{spec.name} has no "{spec.scenario}" form', hint=hint)
    found = origin(spec, data, images)
    features = prod(images.image_shape)
    show = show_of(found.data.digest, features)
    return Source(
        data=found.data,
        input_shape=(features,),
        head_rows=head_rows(class_table(_one_task(spec), images.classes)),
        train_samples=at_most(images.train_samples, spec.train_per_task, 1) * spec.tasks,
        test_samples=at_most(images.test_samples, spec.test_per_task, 1) * spec.tasks,
        load=lambda: _stream(found, spec, show),
        value_bytes=1,
    )


def _one_task(spec: Benchmark) -> Benchmark:
    return replace(spec, tasks=1, task_order_seed="natural", first_task="equal")


def _stream(found: Origin, spec: Benchmark, show: Show) -> Stream:
    dataset = found.read()
    whole = split(dataset, _one_task(spec), digest=found.data.digest, is_flat=False)
    (task,) = whole.tasks
    kept = torch.cat([task.train, task.validation]).sort().values
    train_inputs, train_rows = _pool(dataset.train_inputs, whole.train_rows, kept, spec.tasks, show)
    test_inputs, test_rows = _pool(dataset.test_inputs, whole.test_rows, task.test, spec.tasks, show)
    parts = [torch.searchsorted(kept, part) for part in (task.train, task.validation)]
    tasks = [
        task._replace(
            train=parts[0] + number * len(kept),
            validation=parts[1] + number * len(kept),
            test=torch.arange(len(task.test)) + number * len(task.test),
        )
        for number in range(spec.tasks)
    ]
    return Stream(
        train_inputs=train_inputs,
        train_rows=train_rows,
        train_tasks=torch.arange(spec.tasks).repeat_interleave(len(kept)),
        test_inputs=test_inputs,
        test_rows=test_rows,
        tasks=tuple(tasks),
        head_rows=whole.head_rows,
        normalisation=PIXELS,
    )


def _pool(inputs: Tensor, rows: Tensor, kept: Tensor, tasks: int, show: Show) -> tuple[Tensor, Tensor]:
    """Return what all tasks show of the images *kept* of *inputs*, task after task, and their head rows."""
    images = inputs[kept].numpy()
    pool = np.empty((tasks, len(images), images[0].size), np.uint8)
    for task in range(tasks):
        pool[task] = show(task, images)
    return torch.from_numpy(pool.reshape(tasks * len(images), -1)), rows[kept].repeat(tasks)
