"""The digest of a data set: which data a run was made of, wherever they came from.

It covers the unpacked content: for each of the four arrays its name, type and shape in canonical JSON, a line feed, then the
values in C order and little-endian. Labels count as int64. So file names, compression and label types do not matter.
"""

import hashlib

import numpy as np

from contilab.data.contract import Dataset
from contilab.spec.canonical import canonical

SCHEME = "contilab.data/1"
ARRAYS = ("train_inputs", "train_labels", "test_inputs", "test_labels")


def digest_of(dataset: Dataset) -> str:
    """Return the SHA-256, in hex, of the content of *dataset*."""
    digest = hashlib.sha256(SCHEME.encode() + b"\n")
    for name in ARRAYS:
        array = np.ascontiguousarray(getattr(dataset, name).numpy())
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        digest.update(canonical({"name": name, "type": str(array.dtype.name), "shape": list(array.shape)}) + b"\n")
        digest.update(array.data)
    return digest.hexdigest()
