"""Members' own random numbers, counter-based: a draw depends on (seed, purpose, task, index) and on nothing else.

*index* counts epochs or blocks of steps within the task. The key of a Philox generator is the start of the SHA-256 of these
four, so a member draws the same numbers whatever its group, its device or the step it is resumed at, and nothing is replayed.
Only Philox's raw 64-bit words are used: NumPy keeps those forever, but not what its distributions make of them.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

SCHEME = "contilab.stream/1"  # raised when any member would draw other numbers

ORDER = "order"  # per epoch: the order of the samples
WEIGHTS = "weights"  # with the name of the parameter
REPLAY = "replay"  # with the name of the draw; per block of steps
RESERVOIR = "reservoir"  # per block of steps
REFERENCE = "reference"  # per block of steps: one number for each slot
AUGMENT = "augment"  # with the name of the batch; per block of steps: one number for each sample
FUZZY = "fuzzy"  # per task: one number for each sample around its beginning
OFFER = "offer"  # per task: the order in which all of its samples are offered at once
OFFER_DRAW = "offer.draw"  # per task: one number for each of them
IMPORTANCE = "importance"  # per task: which samples
IMPORTANCE_DRAW = "importance.draw"  # per task: one number for each of them
FEW_SHOT = "few_shot"  # per pass: the order of a task's samples when it is learned again, to measure how fast


def words(seed: int, purpose: str, *, task: int, index: int, count: int) -> NDArray[np.uint64]:
    """Draw *count* random 64-bit words."""
    key = hashlib.sha256(f"{SCHEME}/{seed}/{purpose}/{task}/{index}".encode()).digest()[:16]
    drawn: NDArray[np.uint64] = np.random.Philox(key=int.from_bytes(key, "little")).random_raw(count)
    return drawn


def uniforms(seed: int, purpose: str, *, task: int, index: int, count: int) -> NDArray[np.float64]:
    """Draw *count* numbers uniform in [0, 1), multiples of 2^-53."""
    return (words(seed, purpose, task=task, index=index, count=count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def permutation(seed: int, purpose: str, *, task: int, index: int, count: int) -> NDArray[np.int64]:
    """Draw a permutation of 0..count-1: the order of *count* random words (two are equal once in 2^64 / count^2)."""
    return words(seed, purpose, task=task, index=index, count=count).argsort(kind="stable")


def below(uniform: NDArray[np.float64], limit: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """Turn *uniform* numbers into integers uniform in 0..limit-1; rounding may reach *limit*, hence the minimum."""
    drawn: NDArray[np.int64] = np.minimum((uniform * limit).astype(np.int64), np.asarray(limit) - 1)
    return drawn
