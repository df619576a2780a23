"""Blurry streams: a share of each task's training samples comes from the other tasks, as if no task were ever alone.

Each task gives the same share of its training samples away and gets as many of others back, so sizes stay. Who gives what to
whom is chosen by hash, as validation samples are: the same for all seeds and methods, and part of the identity of the data.
Every sample is in one task still; validation and test parts, and which task a sample is said to be of, stay as they were.
"""

import numpy as np
import torch

from contilab.data.contract import Stream
from contilab.data.selection import Indices, first, ranks
from contilab.errors import InputError


def blurred(stream: Stream, share: float, *, digest: str) -> Stream:
    """Return *stream* with *share* of each task's training samples taken from the other tasks.

    *digest*: of the data. Raises InputError if one task gives more than all others together.
    """
    parts = [task.train.cpu().numpy() for task in stream.tasks]
    rank = ranks(f"contilab.blurry/1 {digest}", len(stream.train_rows))
    given = [first(part, rank, round(share * len(part))) for part in parts]
    counts = [len(own) for own in given]
    if 2 * max(counts) > sum(counts) > 0:
        problem = (
            f"task {int(np.argmax(counts))} would give {max(counts)} samples away, and all others {sum(counts) - max(counts)}"
        )
        raise InputError("benchmark.blurry_share", problem, hint="choose tasks of more equal size")
    pot, owner = np.concatenate(given), np.repeat(np.arange(len(parts)), counts)
    taker = _takers(owner, ranks(f"contilab.blurry_takers/1 {digest}", len(owner)))
    kept = [np.setdiff1d(part, own, assume_unique=True) for part, own in zip(parts, given, strict=True)]
    trained = [np.sort(np.concatenate([own, pot[taker == task]])) for task, own in enumerate(kept)]
    tasks = [task._replace(train=torch.from_numpy(own)) for task, own in zip(stream.tasks, trained, strict=True)]
    return stream._replace(tasks=tuple(tasks))


def _takers(owner: Indices, rank: np.ndarray) -> Indices:
    """Return which task takes each sample [n], as many as each gives and never its own.

    Takers lie in a random order, in which a sample that would stay changes with one that frees both, looked for from a random
    place on.

    >>> _takers(np.array([0, 0, 1, 1]), np.arange(4, dtype=np.uint64)).tolist()
    [1, 1, 0, 0]
    """
    order, count = np.argsort(rank, kind="stable").tolist(), len(owner)
    giver, taker = owner.tolist(), owner[order].tolist()
    for place in order:
        if taker[place] != giver[place]:
            continue
        start = int(rank[place]) % count
        tried = (order[probe % count] for probe in range(start, start + count))
        other = next(other for other in tried if taker[place] not in (giver[other], taker[other]))
        taker[place], taker[other] = taker[other], taker[place]
    return np.array(taker, dtype=np.int64)
