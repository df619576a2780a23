"""The layers that models are made of: plain functions of tensors for ONE member, as forward passes call them.

Models call these and not torch's own, so that a layer can carry a form for ensembles that is faster than vmap's.

Shapes: B samples, I and O inputs and outputs or channels, G groups, K kernel size, H and W height and width.
"""

import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W^T + b; x [B, I], weight [O, I], bias [O]."""
    return F.linear(x, weight, bias)


def conv2d(x: Tensor, weight: Tensor, *, stride: int = 1, padding: int = 0) -> Tensor:
    """Return the convolution of x [B, I, H, W] with weight [O, I, K, K]; no bias, as a norm follows."""
    return F.conv2d(x, weight, stride=stride, padding=padding)


def group_norm(x: Tensor, groups: int, weight: Tensor, bias: Tensor) -> Tensor:
    """Return x [B, C, H, W] with mean 0 and variance 1 in each of *groups* groups of channels, times weight [C] plus bias [C]."""
    return F.group_norm(x, groups, weight, bias)
