"""How stored inputs become what a model sees: `(inputs - shift) / scale`, per channel, when a batch is gathered.

So big inputs stay uint8 in memory, a quarter of their floats. Shift and scale are published ones or those of the training part
of the first task, never of test data.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Normalisation(NamedTuple):
    """Shift and scale in units of the stored values: one number for all of an input, or one per channel (its first axis)."""

    shift: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)

    def apply(self, inputs: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return *inputs* [B, *shape] as *dtype*, normalised: what a model is to see, which the engine equals bit by bit.

        >>> Normalisation(shift=(0.0,), scale=(255.0,)).apply(torch.tensor([[0, 51]], dtype=torch.uint8))
        tensor([[0.0000, 0.2000]])
        """
        channels = (-1, *(1 for _ in inputs.shape[2:]))
        shift, scale = (torch.tensor(each, dtype=dtype, device=inputs.device).reshape(channels) for each in self)
        return (inputs.to(dtype) - shift) / scale


PIXELS = Normalisation(scale=(255.0,))  # to 0..1, nothing else


def of_unit(mean: tuple[float, ...], std: tuple[float, ...]) -> Normalisation:
    """Return the normalisation of 8-bit images whose *mean* and *std* are published for values of 0 to 1."""
    return Normalisation(tuple(255 * value for value in mean), tuple(255 * value for value in std))


def of_samples(inputs: Tensor, samples: Tensor) -> Normalisation:
    """Return the mean and standard deviation per channel of the *samples* (indices) of *inputs* [N, C, ...] uint8.

    Inputs [N, H, W] are pictures of one channel. Both are exact up to the last rounding: sums of integers. A channel without
    variation is only shifted.

    >>> of_samples(torch.tensor([[[0, 2], [0, 2]]], dtype=torch.uint8), torch.tensor([0]))
    Normalisation(shift=(1.0,), scale=(1.0,))
    """
    counts = _histograms(inputs.unsqueeze(1) if inputs.ndim == 3 else inputs, samples)
    values = np.arange(256, dtype=np.int64)
    total, first, second = counts.sum(1), counts @ values, counts @ values**2
    mean = first / total
    variance = np.maximum(second / total - mean**2, 0)
    std = np.where(variance > 0, np.sqrt(variance), 1.0)
    return Normalisation(tuple(float(value) for value in mean), tuple(float(value) for value in std))


def _histograms(inputs: Tensor, samples: Tensor) -> np.ndarray:
    """Return how often each value [C, 256] occurs; in pieces, since the inputs may be larger than memory."""
    counts = np.zeros((inputs.shape[1], 256), np.int64)
    for part in torch.split(samples, 4096):
        chosen = inputs[part].flatten(2).numpy() if inputs.ndim > 2 else inputs[part].numpy()[:, :, None]
        for channel in range(inputs.shape[1]):
            counts[channel] += np.bincount(chosen[:, channel].ravel(), minlength=256)
    return counts
