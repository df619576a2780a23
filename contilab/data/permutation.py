"""Permuted images: each task shows the pixels in its own fixed order; the first task shows them as they are.

The order of task t follows from (digest of the data, task order seed, t) alone, so it is the same for training, validation and
test images and for all members. Source: Goodfellow et al. (2013), An empirical investigation of catastrophic forgetting.
"""

import numpy as np

from contilab.data.contract import Source
from contilab.data.image_set import ImageSet
from contilab.data.origin import refuse_foreign
from contilab.data.selection import shuffled
from contilab.data.transformed import Images, Show, transformed_source
from contilab.spec.sections import Benchmark, Data


def permuted_source(images: ImageSet, spec: Benchmark, data: Data | None) -> Source:
    """Return the source of *spec* over permuted *images*."""
    refuse_foreign(spec, "data")

    def show_of(digest: str, features: int) -> Show:
        orders = [np.array(pixel_order(digest, spec.task_order_seed, task, features)) for task in range(spec.tasks)]

        def show(task: int, images: Images) -> Images:
            return images.reshape(len(images), -1)[:, orders[task]]

        return show

    return transformed_source(images, spec, data, show_of)


def pixel_order(digest: str, seed: int | str, task: int, features: int) -> tuple[int, ...]:
    """Return which pixel each place shows in *task*.

    >>> pixel_order("any", 3, 0, 4), sorted(pixel_order("any", 3, 1, 4))
    ((0, 1, 2, 3), [0, 1, 2, 3])
    """
    return tuple(range(features)) if task == 0 else shuffled(f"contilab.permutation/1 {digest} {seed} {task}", features)
