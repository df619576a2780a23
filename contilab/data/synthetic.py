"""Synthetic Gaussians: six classes in 20 dimensions, each one normal cloud; made, not stored, and the same bytes everywhere.

Class means N(0, 9 I), samples N(mean, I), 200 training and 100 test samples per class. The digest names the
generator and its parameters.
"""

import numpy as np
import torch

from contilab.data.contract import Dataset, Source
from contilab.data.normal import Floats, normal
from contilab.data.source import Facts, fixed_source
from contilab.spec.canonical import digest
from contilab.spec.entry import Entry
from contilab.spec.sections import Benchmark, Data

CLASSES, FEATURES = 6, 20
TRAIN, TEST = 200, 100  # samples per class
MEAN_SCALE = 3.0  # standard deviation of the class means
GENERATOR = {
    "v": "contilab.synthetic/1",  # raised when the numbers change
    "classes": CLASSES,
    "features": FEATURES,
    "train": TRAIN,
    "test": TEST,
    "mean_scale": MEAN_SCALE,
}


def synthetic(spec: Benchmark, data: Data | None = None) -> Source:
    """Return the source of the synthetic benchmark for *spec*; *data*: those of a run that was planned."""
    own = Data(name="synthetic", digest=digest(GENERATOR))
    return fixed_source(Facts(own, FEATURES, CLASSES, CLASSES * TRAIN, CLASSES * TEST), spec, gaussians, data)


def gaussians() -> Dataset:
    """Return the data set: float32 inputs [1200, 20] and [600, 20], sorted by class."""
    means = MEAN_SCALE * normal(0, CLASSES * FEATURES).reshape(CLASSES, 1, FEATURES)
    samples = normal(1, CLASSES * (TRAIN + TEST) * FEATURES).reshape(CLASSES, TRAIN + TEST, FEATURES) + means
    train, test = _part(samples[:, :TRAIN]), _part(samples[:, TRAIN:])
    return Dataset("synthetic", *train, *test, classes=CLASSES)


def _part(samples: Floats) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and labels of *samples* [classes, n, features]."""
    inputs = torch.from_numpy(samples.reshape(-1, FEATURES).astype(np.float32))
    return inputs, torch.arange(CLASSES).repeat_interleave(samples.shape[1])


ENTRY = Entry(
    make=synthetic,
    numerics="synthetic/1",
    summary=(
        "Six Gaussian clouds in 20 dimensions (200 train and 100 test samples each), split into tasks by class. "
        "Made in an instant, for smoke tests."
    ),
)
