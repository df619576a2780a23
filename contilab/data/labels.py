"""Class labels from outside: any integer type, every value checked before a loss function sees it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_CLASSES = 2**15  # of a data set: predictions are recorded as int16


def checked(values: NDArray[Any], classes: int) -> NDArray[np.int64]:
    """Return *values* [N] as int64; the integer type they came in makes no difference.

    Raises ValueError, naming index and value, unless each is an integer from 0 to *classes* - 1.

    >>> checked(np.array([1, 0], dtype=np.int8), 2).tolist()
    [1, 0]
    """
    if values.dtype.kind not in "iu":
        raise ValueError(f"labels are of type {values.dtype}, not integers")
    if values.ndim != 1:
        raise ValueError(f"labels have {values.ndim} dimensions, not one")
    bad = np.flatnonzero((values < 0) | (values >= classes))
    if bad.size:
        raise ValueError(f"the label at index {bad[0]} is {values[bad[0]]}, labels are 0 to {classes - 1}")
    return values.astype(np.int64)
