"""Streams whose tasks mix: in which order a member learns them, and which classes it has seen before each step.

Fuzzy boundaries: within a width of w steps around the boundary s_t each sample comes from the later task with probability
1/2 + (s - s_t) / (2 w), s being the step of the sample, fractions included. As many samples of the earlier task come after the
boundary as of the later one before it, so each is learned once: which places they take is drawn by Pareto sampling (Rosen 1997,
"On sampling with probability proportional to size"), which has these probabilities but for a term that vanishes with w. Where
a task is shorter than two widths, its half takes the place of the width (chosen). Away from boundaries the order is that of the
stream with sharp ones.

Blurry streams mix in the data, see `contilab.data.blurry`; here their classes count as seen once they were learned.

Shapes: n samples of a stage, C head rows, N samples of the training pool.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from contilab.engine import streams
from contilab.engine.memory.entries import Floats, Integers
from contilab.engine.memory.replay import Flags


class Mixture(NamedTuple):
    """The training samples of each stage, and how far around each boundary they mix, in samples; 0 for not at all."""

    parts: tuple[Integers, ...]  # [n] each, indices into the pool
    rows: Integers  # [N]
    head_rows: int
    width: int = 0

    def line(self, seed: int, task: int) -> Integers:
        """Return the samples [n] of stage *task* in the order in which the member *seed* learns them in its first epoch."""
        line = self._ordered(seed, task)
        if self.width and task > 0 and (half := self._half(task)):
            line[:half] = self._around(seed, task)[half:]
        if self.width and task + 1 < len(self.parts) and (half := self._half(task + 1)):
            line[len(line) - half :] = self._around(seed, task + 1)[:half]
        return line

    def seen_after(self, seed: int, task: int) -> Flags:
        """Return which rows [C] the member *seed* has learned once stage *task* is over; -1: none."""
        found = np.zeros(self.head_rows, dtype=np.bool_)
        for earlier in range(task + 1):
            found[self.rows[self.line(seed, earlier)]] = True
        return found

    def first_places(self, seed: int, task: int) -> Integers:
        """Return the place of the first sample of each row [C] in the line of stage *task*, n of rows that are not in it."""
        rows = self.rows[self.line(seed, task)]
        first = np.full(self.head_rows, len(rows), dtype=np.int64)
        np.minimum.at(first, rows, np.arange(len(rows)))
        return first

    def _ordered(self, seed: int, task: int) -> Integers:
        part = self.parts[task]
        ordered: Integers = part[streams.permutation(seed, streams.ORDER, task=task, index=0, count=len(part))]
        return ordered

    def _half(self, task: int) -> int:
        """Return how many samples lie in the mixed part on each side of the beginning of *task*."""
        return min(self.width, len(self.parts[task - 1]) // 2, len(self.parts[task]) // 2)

    def _around(self, seed: int, task: int) -> Integers:
        """Return the samples around the beginning of *task*, as many before it as after it."""
        half = self._half(task)
        before, after = self._ordered(seed, task - 1), self._ordered(seed, task)
        is_later = later_places(streams.uniforms(seed, streams.FUZZY, task=task, index=0, count=2 * half))
        around = np.empty(2 * half, dtype=np.int64)
        around[is_later], around[~is_later] = after[:half], before[len(before) - half :]
        return around


def later_places(uniform: Floats) -> NDArray[np.bool_]:
    """Return which of the places [2 h] around a boundary the later task takes, h of them; *uniform*: a number in [0, 1) each.

    >>> later_places(np.array([0.5, 0.5, 0.5, 0.5])), later_places(np.array([0.01, 0.5, 0.5, 0.99]))
    (array([False, False,  True,  True]), array([ True, False,  True, False]))
    """
    share = (np.arange(len(uniform)) + 0.5) / len(uniform)
    odds = uniform / (1 - uniform) * (1 - share) / share
    is_later = np.zeros(len(uniform), dtype=np.bool_)
    is_later[np.argsort(odds, kind="stable")[: len(uniform) // 2]] = True
    return is_later
