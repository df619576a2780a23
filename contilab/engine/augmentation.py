"""Augmentation: whenever a picture is learned it is shown moved, mirrored or both, by the member's own draw.

A crop of a picture with a border of zeros is the picture moved by at most the border's width, with zeros coming in. Batches are
shown so where they are gathered, as pictures are stored (of bytes, zero is black): current, replayed and reference samples
alike, each drawn anew. What is measured of a model sees pictures as they are: exams, importances, herding, means of classes.

Source: He et al. 2016, section 4.2: "4 pixels are padded on each side, and a 32 x 32 crop is randomly sampled from the padded
image or its horizontal flip".

Shapes: B samples, C channels, H and W height and width.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from contilab.engine import streams
from contilab.engine.memory.entries import Floats, Integers
from contilab.errors import InputError


class Augmentation(NamedTuple):
    """Which views of a picture there are: moved by up to *padding* pixels each way, and their mirror images."""

    padding: int = 0
    is_mirrored: bool = False

    @property
    def views(self) -> int:
        """How many there are; 1 is the picture as it is."""
        return (2 * self.padding + 1) ** 2 * (1 + self.is_mirrored)

    def drawn(self, uniform: Floats) -> Integers:
        """Return the views [..., 3] that *uniform* numbers in [0, 1) choose, all equally likely.

        Of each: by how many rows and columns what is shown lies below and right of the picture's own place, and 1 if mirrored.

        >>> Augmentation(padding=4, is_mirrored=True).drawn(np.array([0.0, 0.5, 0.999]))
        array([[-4, -4,  0],
               [ 0,  0,  1],
               [ 4,  4,  1]])
        """
        chosen = streams.below(uniform, self.views)
        place, is_mirrored = np.divmod(chosen, 1 + self.is_mirrored)
        down, right = np.divmod(place, 2 * self.padding + 1)
        return np.stack([down - self.padding, right - self.padding, is_mirrored], axis=-1)


PLAIN = Augmentation()
PADDING = 4  # as in the source
AUGMENTATIONS = {
    "none": PLAIN,
    "crop": Augmentation(PADDING),
    "flip": Augmentation(is_mirrored=True),
    "crop_flip": Augmentation(PADDING, is_mirrored=True),
}


def augmentation(name: str, input_shape: tuple[int, ...]) -> Augmentation:
    """Return the augmentation *name* for inputs of *input_shape*; InputError if they are no pictures."""
    found = AUGMENTATIONS[name]
    if found.views > 1 and len(input_shape) not in (2, 3):
        problem = f'"{name}" moves pixels of pictures, and the inputs of this benchmark have shape {list(input_shape)}'
        raise InputError(
            "train.augment", problem, hint='leave it at "none", or choose a benchmark of pictures, as split_cifar10'
        )
    return found


def shown(inputs: Tensor, views: Tensor) -> Tensor:
    """Return *inputs* [B, C, H, W] or [B, H, W] as their *views* [B, 3] say; of the same type.

    Goes through vmap and torch.compile. A view one pixel down shows the picture from its second row on:

    >>> shown(torch.tensor([[[1, 2], [3, 4]]]), torch.tensor([[1, 0, 1]]))
    tensor([[[4, 3],
             [0, 0]]])
    """
    height, width = inputs.shape[-2:]
    down, right, is_mirrored = views[:, :, None].unbind(1)  # [B, 1] each
    row = torch.arange(height, device=views.device) + down
    column = torch.arange(width, device=views.device)
    column = torch.where(is_mirrored > 0, width - 1 - column, column) + right
    is_row, is_column = (row >= 0) & (row < height), (column >= 0) & (column < width)
    place = row.clamp(0, height - 1)[:, :, None] * width + column.clamp(0, width - 1)[:, None]  # [B, H, W]
    is_inside = is_row[:, :, None] & is_column[:, None]
    if inputs.ndim == 4:
        place, is_inside = place[:, None], is_inside[:, None]
    found = inputs.flatten(-2).gather(-1, place.flatten(-2).expand(*inputs.shape[:-2], -1))
    return found.view(inputs.shape).masked_fill(~is_inside, 0)
