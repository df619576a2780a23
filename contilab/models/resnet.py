"""ResNet-18 for small images, of any width: a 3x3 stem without pooling, four stages of two basic blocks, mean over positions.

Source: He et al. 2016 (CVPR), in the form for 32 x 32 images that GEM (Lopez-Paz & Ranzato 2017) and its successors use:
stages of c, 2c, 4c and 8c channels, the last three begin with stride 2, where the shortcut is a 1x1 convolution and a norm.
GroupNorm (Wu & He 2018) instead of BatchNorm: it has no running statistics, which neither ensembles nor merging of weights
could share, and a sample's logits do not depend on its batch.

Shapes: B samples, C channels, H and W height and width.
"""

from itertools import pairwise
from typing import NamedTuple

from torch import Tensor
from torch.nn.functional import relu

from contilab.models.blueprint import Blueprint, image_shape
from contilab.models.contract import Forward, Model, Params
from contilab.models.layers import conv2d, group_norm, linear

BLOCKS = 2  # of each stage


class _Block(NamedTuple):
    name: str
    inputs: int
    outputs: int
    stride: int

    @property
    def is_projected(self) -> bool:
        return self.stride > 1 or self.inputs != self.outputs


def stages(channels: int) -> tuple[int, ...]:
    """Return the channels of the four stages."""
    return (channels, 2 * channels, 4 * channels, 8 * channels)


def resnet(name: str, input_shape: tuple[int, ...], rows: int, *, channels: int, groups: int) -> Model:
    """Return the model *name* of *channels* in the first stage, its norms in *groups* groups; InputError unless images come."""
    shape = image_shape(name, input_shape)
    blocks = _blocks(channels)
    blueprint = _blueprint(shape, blocks, rows)

    def normed(params: Params, name: str, x: Tensor) -> Tensor:
        return group_norm(x, groups, params[f"{name}.gain"], params[f"{name}.bias"])

    def run(params: Params, block: _Block, x: Tensor) -> Tensor:
        own = block.name
        inner = conv2d(x, params[f"{own}.conv0.weight"], stride=block.stride, padding=1)
        inner = conv2d(relu(normed(params, f"{own}.norm0", inner)), params[f"{own}.conv1.weight"], padding=1)
        if block.is_projected:
            x = normed(params, f"{own}.shortcut.norm", conv2d(x, params[f"{own}.shortcut.weight"], stride=block.stride))
        return relu(normed(params, f"{own}.norm1", inner) + x)

    def forward(params: Params, _buffers: Params, x: Tensor) -> Forward:
        x = conv2d(x.reshape(*x.shape[: -len(input_shape)], *shape), params["stem.weight"], padding=1)
        x = relu(normed(params, "stem.norm", x))
        for block in blocks:
            x = run(params, block, x)
        features = x.mean((-2, -1))
        return Forward(features=features, logits=linear(features, params["head.weight"], params["head.bias"]))

    return Model(blueprint.table, forward, blueprint.flops, is_convolutional=True, takes_members=True)


def _blocks(channels: int) -> list[_Block]:
    widths = (channels, *stages(channels))
    return [
        _Block(f"stage{stage}.block{block}", outputs if block else inputs, outputs, 2 if stage and not block else 1)
        for stage, (inputs, outputs) in enumerate(pairwise(widths))
        for block in range(BLOCKS)
    ]


def _blueprint(shape: tuple[int, int, int], blocks: list[_Block], rows: int) -> Blueprint:
    inputs, height, width = shape
    blueprint = Blueprint()
    blueprint.conv("stem", inputs, blocks[0].inputs, kernel=3, positions=height * width)
    blueprint.norm("stem.norm", blocks[0].inputs)
    for name, inputs, outputs, stride in blocks:
        height, width = (height - 1) // stride + 1, (width - 1) // stride + 1
        for index, into in enumerate((inputs, outputs)):
            blueprint.conv(f"{name}.conv{index}", into, outputs, kernel=3, positions=height * width)
            blueprint.norm(f"{name}.norm{index}", outputs)
        if stride > 1 or inputs != outputs:
            blueprint.conv(f"{name}.shortcut", inputs, outputs, kernel=1, positions=height * width)
            blueprint.norm(f"{name}.shortcut.norm", outputs)
    blueprint.linear("head", blocks[-1].outputs, rows)
    return blueprint
