"""A small convolution net: blocks of 3x3 convolution, GroupNorm, ReLU and 2x2 maximum; what is left is flattened into the head.

The shape that small-image studies use beside a ResNet (Zenke et al. 2017 and others have four such layers with dropout).
GroupNorm keeps a sample's logits independent of its batch, as in `resnet`.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le, MinLen
from torch import Tensor
from torch.nn.functional import relu

from contilab.models.blueprint import Blueprint, check_groups, image_shape
from contilab.models.contract import Forward, Model, Params
from contilab.models.layers import conv2d, group_norm, linear, max_pool2d
from contilab.spec.entry import Entry
from contilab.spec.fields import Doc

MOST_CHANNELS = 65_536  # of one layer; chosen: more fits into no machine's memory


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a manifest may set of the convolution net."""

    channels: Annotated[
        tuple[Annotated[int, Ge(1), Le(MOST_CHANNELS)], ...], MinLen(1), Doc("channels of each block; each halves the image")
    ] = (32, 64, 128)
    norm: Annotated[Literal["group"], Doc("normalisation after each convolution")] = "group"
    groups: Annotated[int, Ge(1), Doc("groups of channels of a norm")] = 8  # chosen: 4 to 16 channels in one

    def __post_init__(self) -> None:
        """Hold the channels as a tuple, JSON and TOML have lists only; refuse groups of unequal size."""
        object.__setattr__(self, "channels", tuple(self.channels))
        check_groups("convnet", self.groups, self.channels)


def convnet(settings: Settings, input_shape: tuple[int, ...], rows: int) -> Model:
    """Return the net for images [B, C, H, W] or [B, H, W] and a head of *rows* rows; InputError for other inputs.

    >>> convnet(Settings(), (3, 32, 32), 10).flops
    20684800
    """
    names = [f"block{index}" for index in range(len(settings.channels))]
    shape = image_shape("convnet", input_shape, smallest=2 ** len(names))
    blueprint = _blueprint(shape, settings.channels, rows)

    def block(params: Params, name: str, x: Tensor) -> Tensor:
        x = conv2d(x, params[f"{name}.conv.weight"], padding=1)
        x = group_norm(x, settings.groups, params[f"{name}.norm.gain"], params[f"{name}.norm.bias"])
        return max_pool2d(relu(x), 2)

    def forward(params: Params, _buffers: Params, x: Tensor) -> Forward:
        x = x.reshape(*x.shape[: -len(input_shape)], *shape)
        for name in names:
            x = block(params, name, x)
        features = x.flatten(-3)
        return Forward(features=features, logits=linear(features, params["head.weight"], params["head.bias"]))

    return Model(blueprint.table, forward, blueprint.flops, is_convolutional=True, takes_members=True)


def _blueprint(shape: tuple[int, int, int], channels: tuple[int, ...], rows: int) -> Blueprint:
    inputs, height, width = shape
    blueprint = Blueprint()
    for index, outputs in enumerate(channels):
        blueprint.conv(f"block{index}.conv", inputs, outputs, kernel=3, positions=height * width)
        blueprint.norm(f"block{index}.norm", outputs)
        inputs, height, width = outputs, height // 2, width // 2
    blueprint.linear("head", inputs * height * width, rows)
    return blueprint


ENTRY = Entry(
    make=convnet,
    settings=Settings,
    numerics="convnet/1",
    summary="A small convolution net for images. Each block is a 3x3 convolution, GroupNorm, ReLU and the maximum of 2x2 "
    "squares; what is left is flattened into the head.",
)
