"""ResNet-18 for small images, of any width: a 3x3 stem without pooling, four stages of two basic blocks, mean over positions.

Source: He et al. 2016 (CVPR), in the form for 32 x 32 images that GEM (Lopez-Paz & Ranzato 2017) and its successors use:
stages of c, 2c, 4c and 8c channels, the last three begin with stride 2, where the shortcut is a 1x1 convolution and a norm.
GroupNorm (Wu & He 2018) unless BatchNorm is asked for: it has no running moments, which merging of weights could not share, and
a sample's logits do not depend on its batch.

Shapes: B samples, C channels, H and W height and width.
"""

from itertools import pairwise
from typing import NamedTuple

from torch import Tensor
from torch.nn.functional import relu

from contilab.models.batch_norm import Moments, batch_moments, batch_norm
from contilab.models.blueprint import Blueprint, image_shape
from contilab.models.contract import WEIGHT, Forward, Model, Params
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


class _Norms:
    """The norms of one forward pass, in *groups* groups, or over batches if there are None: it notes the *moments* of these."""

    def __init__(self, groups: int | None, params: Params, buffers: Params) -> None:
        self.moments: Params = {}
        self._groups, self._params, self._buffers = groups, params, buffers

    def __call__(self, name: str, x: Tensor) -> Tensor:
        gain, bias = self._params[f"{name}.gain"], self._params[f"{name}.bias"]
        if self._groups is not None:
            return group_norm(x, self._groups, gain, bias)
        x = x.to(gain.dtype)  # products may be in bf16, which has too few digits for a variance
        return batch_norm(x, self._moments_of((f"{name}.mean", f"{name}.variance"), x), gain, bias)

    def _moments_of(self, names: tuple[str, str], x: Tensor) -> Moments:
        if names[0] in self._buffers:
            return Moments(*(self._buffers[name] for name in names))
        moments, running = batch_moments(x, self._buffers.get(WEIGHT))
        self.moments |= zip(names, running, strict=True)
        return moments


def resnet(name: str, input_shape: tuple[int, ...], rows: int, *, channels: int, groups: int | None) -> Model:
    """Return the model *name* of *channels* in the first stage; InputError unless images come.

    *groups* of channels of its GroupNorms; None for BatchNorm.
    """
    shape = image_shape(name, input_shape)
    blocks = _blocks(channels)
    blueprint = _blueprint(shape, blocks, rows, is_of_batch=groups is None)

    def run(params: Params, norm: _Norms, block: _Block, x: Tensor) -> Tensor:
        own = block.name
        inner = conv2d(x, params[f"{own}.conv0.weight"], stride=block.stride, padding=1)
        inner = conv2d(relu(norm(f"{own}.norm0", inner)), params[f"{own}.conv1.weight"], padding=1)
        if block.is_projected:
            x = norm(f"{own}.shortcut.norm", conv2d(x, params[f"{own}.shortcut.weight"], stride=block.stride))
        return relu(norm(f"{own}.norm1", inner) + x)

    def forward(params: Params, buffers: Params, x: Tensor) -> Forward:
        norm = _Norms(groups, params, buffers)
        x = conv2d(x.reshape(*x.shape[: -len(input_shape)], *shape), params["stem.weight"], padding=1)
        x = relu(norm("stem.norm", x))
        for block in blocks:
            x = run(params, norm, block, x)
        features = x.mean((-2, -1))
        return Forward(features, linear(features, params["head.weight"], params["head.bias"]), norm.moments)

    model = Model(blueprint.table, forward, blueprint.flops, is_convolutional=True, buffers=blueprint.buffers)
    return model._replace(takes_members=groups is not None)  # stacked, BatchNorm would need a form of its own; vmap has one


def _blocks(channels: int) -> list[_Block]:
    widths = (channels, *stages(channels))
    return [
        _Block(f"stage{stage}.block{block}", outputs if block else inputs, outputs, 2 if stage and not block else 1)
        for stage, (inputs, outputs) in enumerate(pairwise(widths))
        for block in range(BLOCKS)
    ]


def _blueprint(shape: tuple[int, int, int], blocks: list[_Block], rows: int, *, is_of_batch: bool) -> Blueprint:
    inputs, height, width = shape
    blueprint = Blueprint()
    blueprint.conv("stem", inputs, blocks[0].inputs, kernel=3, positions=height * width)
    blueprint.norm("stem.norm", blocks[0].inputs, is_of_batch=is_of_batch)
    for name, inputs, outputs, stride in blocks:
        height, width = (height - 1) // stride + 1, (width - 1) // stride + 1
        for index, into in enumerate((inputs, outputs)):
            blueprint.conv(f"{name}.conv{index}", into, outputs, kernel=3, positions=height * width)
            blueprint.norm(f"{name}.norm{index}", outputs, is_of_batch=is_of_batch)
        if stride > 1 or inputs != outputs:
            blueprint.conv(f"{name}.shortcut", inputs, outputs, kernel=1, positions=height * width)
            blueprint.norm(f"{name}.shortcut.norm", outputs, is_of_batch=is_of_batch)
    blueprint.linear("head", blocks[-1].outputs, rows)
    return blueprint
