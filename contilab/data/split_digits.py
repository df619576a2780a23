"""Split Digits: the 8 x 8 handwritten digits that lie in the package, so a real study needs no download; pixels / 16.

Source and licence of the data: DIGITS.md beside this file. Of each class, in the order of the file, every fifth sample (the
5th, 10th, ...) is test data (chosen; the original is split by writer, but these images are all of its test part).
"""

from importlib.resources import files

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load
from torch import Tensor

from contilab.data import labels
from contilab.data.contract import Dataset, Source
from contilab.data.digest import digest_of
from contilab.data.normalisation import Normalisation
from contilab.data.source import Facts, fixed_source
from contilab.errors import DataError
from contilab.spec.entry import Entry
from contilab.spec.sections import Benchmark, Data

DIGEST = "6fffabcf3a8f805c69c42faf045858d802b9cdcc7b87290669ff8ab0d43f6155"
FILE = "digits.safetensors"
SIXTEENTHS = Normalisation(scale=(16.0,))


def split_digits(spec: Benchmark, data: Data | None = None) -> Source:
    """Return the source of Split Digits for *spec*; *data*: those of a run that was planned."""
    own = Data(name="digits", digest=DIGEST)
    facts = Facts(own, features=64, classes=10, train_samples=1442, test_samples=355, normalisation=SIXTEENTHS)
    return fixed_source(facts, spec, lambda: digits(files("contilab.data").joinpath(FILE).read_bytes()), data)


def digits(content: bytes) -> Dataset:
    """Return the data set in *content*, the bytes of the shipped file; DataError if they are others."""
    try:
        arrays = load(content)
        inputs, targets = torch.from_numpy(arrays["images"]), torch.from_numpy(labels.checked(arrays["labels"], 10))
    except (SafetensorError, KeyError, ValueError) as error:
        raise _damaged(str(error)) from error
    is_test = _every_fifth(targets)
    train, test = (inputs[~is_test], targets[~is_test]), (inputs[is_test], targets[is_test])
    dataset = Dataset("digits", *train, *test, classes=10)
    if (found := digest_of(dataset)) != DIGEST:
        raise _damaged(f"the digest of the data is {found}, not {DIGEST}")
    return dataset


def _every_fifth(targets: Tensor) -> Tensor:
    """Return which samples [N] bool are the 5th, 10th, ... of their class."""
    is_test = np.zeros(len(targets), dtype=bool)
    for label in range(10):
        is_test[np.flatnonzero(targets.numpy() == label)[4::5]] = True
    return torch.from_numpy(is_test)


def _damaged(problem: str) -> DataError:
    return DataError(f"contilab/data/{FILE}", f"the file in the package is damaged: {problem}", hint="install contilab again")


ENTRY = Entry(
    make=split_digits,
    numerics="split_digits/1",
    summary="1,797 handwritten digits of 8 x 8 pixels (1,442 train), split into tasks by class. They lie in the package.",
    paper="Alpaydin, Kaynak (1998), Optical recognition of handwritten digits, UCI Machine Learning Repository",
)
