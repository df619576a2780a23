"""Reduced ResNet-18: 20 channels instead of 64, the model of continual learning on small images.

Source: Lopez-Paz & Ranzato 2017 (GEM). With 10 rows on 3 x 32 x 32 it has 1,094,750 parameters, with 100 rows 1,109,240.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from contilab.models.blueprint import check_norm
from contilab.models.contract import Model
from contilab.models.resnet import resnet, stages
from contilab.spec.entry import Entry
from contilab.spec.fields import Doc

CHANNELS = 20
GROUPS = 4  # chosen: 5 to 40 channels in one


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a manifest may set of the reduced ResNet-18."""

    norm: Annotated[
        Literal["group", "batch"],
        Doc("normalisation after each convolution: of each sample in groups of channels, or BatchNorm"),
    ] = "group"
    groups: Annotated[int, Ge(1), Doc("groups of channels of a norm")] = GROUPS

    def __post_init__(self) -> None:
        """Refuse groups of unequal size, and groups of what has none."""
        check_norm("resnet18r", self.norm, self.groups, stages(CHANNELS), default=GROUPS)


def resnet18r(settings: Settings, input_shape: tuple[int, ...], rows: int) -> Model:
    """Return the network for images [B, C, H, W] or [B, H, W] and a head of *rows* rows; InputError for other inputs.

    >>> resnet18r(Settings(), (3, 32, 32), 10).flops
    109243520
    """
    groups = settings.groups if settings.norm == "group" else None
    return resnet("resnet18r", input_shape, rows, channels=CHANNELS, groups=groups)


ENTRY = Entry(
    make=resnet18r,
    settings=Settings,
    numerics="resnet18r/1",
    summary="ResNet-18 with 20 channels and GroupNorm or BatchNorm, for small images. The stem is a 3x3 convolution without "
    "pooling; stages of 20, 40, 80 and 160 channels; the mean over positions enters the head.",
    paper="Lopez-Paz & Ranzato, Gradient Episodic Memory for Continual Learning, NeurIPS 2017",
)
