"""Which samples are held out or kept: chosen by hash, so a choice is part of the data's identity.

Every sample has a rank, the hash of a key and its index, and "the first n" always means by that rank. So a choice depends on
no random generator, no order of loading and no other sample, and a smaller choice is part of a larger one.
"""

import hashlib
import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def ranks(key: str, count: int) -> NDArray[np.uint64]:
    """Return the rank [count] of the indices 0 to *count* - 1: 64 bits of the SHA-256 of *key* and index."""
    start = hashlib.sha256(key.encode() + b"\0")
    digests = bytearray()
    for index in range(count):
        each = start.copy()
        each.update(index.to_bytes(8, "little"))
        digests += each.digest()[:8]
    return np.frombuffer(bytes(digests), "<u8").astype(np.uint64)


@lru_cache(maxsize=2)
def known_ranks(key: str, count: int) -> NDArray[np.uint64]:
    """Return `ranks`, kept for who asks again: hashing 60,000 indices takes 0.05 s. Not to be written into."""
    return ranks(key, count)


def shuffled(key: str, count: int) -> tuple[int, ...]:
    """Return the numbers 0 to *count* - 1 in an order that *key* alone decides.

    >>> sorted(shuffled("any key", 4))
    [0, 1, 2, 3]
    """
    return tuple(int(index) for index in np.argsort(ranks(key, count), kind="stable"))


def first(indices: Indices, rank: NDArray[np.uint64], count: int) -> Indices:
    """Return those *count* of *indices* that come first by *rank*, ascending."""
    return np.sort(indices[np.argsort(rank[indices], kind="stable")][:count])


def held_out(samples: int, share: float) -> int:
    """Return how many of a class's *samples* are held out for validation: within one of *share*, and never all of them.

    >>> held_out(5421, 0.1), held_out(4, 0.1), held_out(1, 0.9)
    (542, 0, 0)
    """
    return max(0, min(math.floor(samples * share + 0.5), samples - 1))


def even_quotas(available: Sequence[int], total: int) -> list[int]:
    """Return how many of each class to keep so that *total* are kept (all, if there are fewer), as evenly as they allow.

    A class that has less than its share gives all it has, and the others share the rest; they differ by one at most. More
    *total* never means less of any class.

    >>> even_quotas([100, 2, 100], 10), even_quotas([5, 5], 3), even_quotas([1, 1], 9)
    ([4, 2, 4], [1, 2], [1, 1])
    """
    quotas = [0] * len(available)
    left = total
    for done, place in enumerate(sorted(range(len(available)), key=lambda place: available[place])):
        quotas[place] = min(available[place], left // (len(available) - done))
        left -= quotas[place]
    return quotas
