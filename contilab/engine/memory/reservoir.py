"""Reservoir sampling: after n offers every sample is held with probability M / n. Source: Vitter 1985, algorithm R.

The n-th sample offered (n from 1) takes slot n - 1 if n <= M, else a slot j uniform in 0..n-1 if j < M.
"""

import numpy as np

from contilab.engine.memory.entries import Integers
from contilab.engine.memory.offer import Held, Offer
from contilab.engine.streams import below


def reservoir(held: Held, offer: Offer, capacity: int) -> Integers:
    """Return the slot [E, S, B] of each sample; *capacity*, the bin, for those that are not kept.

    Two samples for two slots, and a third that draws the second of three places:

    >>> held = Held(*[np.full((1, 2), -1)] * 2, np.zeros((1, 2), int), np.zeros((1, 1), int))
    >>> offer = Offer(*[np.zeros((1, 1, 3), int)] * 2, np.array([[[0.9, 0.9, 0.5]]]))
    >>> reservoir(held, offer, 2)
    array([[[0, 1, 1]]])
    """
    _, steps, batch = offer.uniform.shape
    before = held.offered.sum(-1)[:, None, None]
    count = before + 1 + np.arange(steps * batch).reshape(steps, batch)
    slots = np.where(count <= capacity, count - 1, below(offer.uniform, count))
    return np.minimum(slots, capacity)
