"""BatchNorm: each channel with the mean and variance of its batch while it is trained, and with running ones otherwise.

Source: Ioffe & Szegedy 2015, with running moments as torch has them: in each step they move by a tenth of the way to those of
the batch, the variance as an estimate from n - 1. Samples of weight 0, the padding of what memory cannot give yet, count in
none of these: they are normalised, and change nothing. A channel with a single value in its batch comes out as its bias.

Shapes: B samples, C channels, H and W height and width.
"""

from typing import NamedTuple

import torch
from torch import Tensor

EPSILON = 1e-5  # added to the variance; as in torch


class Moments(NamedTuple):
    """Mean and variance [C] of each channel."""

    mean: Tensor
    variance: Tensor


def batch_norm(x: Tensor, moments: Moments, gain: Tensor, bias: Tensor) -> Tensor:
    """Return x [B, C, H, W] less the mean, over the deviation, times 1 + gain, plus bias [C]; gains count from 1 as elsewhere.

    >>> x = torch.tensor([1.0, 3.0]).reshape(2, 1, 1, 1)
    >>> own, running = batch_moments(x)
    >>> own, running
    (Moments(mean=tensor([2.]), variance=tensor([1.])), Moments(mean=tensor([2.]), variance=tensor([2.])))
    >>> batch_norm(x, own, torch.zeros(1), torch.zeros(1)).flatten()
    tensor([-1.0000,  1.0000])
    """
    scale = (1 + gain) * torch.rsqrt(moments.variance + EPSILON)
    return torch.addcmul(bias[:, None, None], x - moments.mean[:, None, None], scale[:, None, None])


def batch_moments(x: Tensor, weight: Tensor | None = None) -> tuple[Moments, Moments]:
    """Return the moments of x [B, C, H, W] to normalise it with, and those to move running ones towards, as constants.

    weight: how much each sample counts [B]; None for all alike.
    """
    samples = x.new_full((), len(x)) if weight is None else weight.sum()
    places = samples * x.shape[-2:].numel()
    mean = _sum(x, weight) / places
    variance = _sum((x - mean[:, None, None]).square(), weight) / places
    unbiased = variance.detach() * places / (places - 1).clamp(min=1)
    return Moments(mean, variance), Moments(mean.detach(), unbiased)


def _sum(x: Tensor, weight: Tensor | None) -> Tensor:
    return (x if weight is None else x * weight[:, None, None, None]).sum((0, 2, 3))
