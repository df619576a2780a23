"""ResNet-18 for small images: 64 channels, as DER and many others train on CIFAR and TinyImageNet.

Source: He et al. 2016, with the stem that Buzzega et al. 2020 (DER) use. With 10 rows on 3 x 32 x 32 it has 11,173,962
parameters.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from contilab.models.blueprint import check_norm
from contilab.models.contract import Model
from contilab.models.resnet import resnet, stages
from contilab.spec.entry import Entry
from contilab.spec.fields import Doc

CHANNELS = 64
GROUPS = 32  # as in Wu & He 2018: 2 to 16 channels in one


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a manifest may set of the ResNet-18."""

    norm: Annotated[
        Literal["group", "batch"],
        Doc("normalisation after each convolution: of each sample in groups of channels, or BatchNorm"),
    ] = "group"
    groups: Annotated[int, Ge(1), Doc("groups of channels of a norm")] = GROUPS

    def __post_init__(self) -> None:
        """Refuse groups of unequal size, and groups of what has none."""
        check_norm("resnet18", self.norm, self.groups, stages(CHANNELS), default=GROUPS)


def resnet18(settings: Settings, input_shape: tuple[int, ...], rows: int) -> Model:
    """Return the network for images [B, C, H, W] or [B, H, W] and a head of *rows* rows; InputError for other inputs.

    >>> resnet18(Settings(), (3, 32, 32), 10).flops
    1110845440
    """
    groups = settings.groups if settings.norm == "group" else None
    return resnet("resnet18", input_shape, rows, channels=CHANNELS, groups=groups)


ENTRY = Entry(
    make=resnet18,
    settings=Settings,
    numerics="resnet18/1",
    summary="ResNet-18 with 64 channels and GroupNorm or BatchNorm, for small images. The stem is a 3x3 convolution without "
    "pooling; stages of 64, 128, 256 and 512 channels; the mean over positions enters the head.",
    paper="He, Zhang, Ren & Sun, Deep Residual Learning for Image Recognition, CVPR 2016",
)
