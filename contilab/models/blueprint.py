"""The blueprint of a model of images: its table of parameters and its operations, noted layer by layer.

Weights and biases start uniform in ±1/sqrt(inputs of one output), as in torch.nn.Linear and torch.nn.Conv2d; a norm starts as
the identity, which is zeros (see `layers.group_norm`). Operations are those of products, 2 per multiply-add; biases, norms,
ReLU and pooling are left out, as is usual.
"""

import math

from contilab.errors import InputError
from contilab.models.contract import Constant, Uniform


class Blueprint:
    """Notes layers in the order in which they are added: *table*, *buffers* and *flops* are those of all of them."""

    def __init__(self) -> None:
        self.table: dict[str, Uniform] = {}
        self.buffers: dict[str, Constant] = {}
        self.flops = 0

    def conv(self, name: str, inputs: int, outputs: int, *, kernel: int, positions: int) -> None:
        """Add a convolution without bias from *inputs* to *outputs* channels, at *positions* places of the output."""
        fan_in = inputs * kernel**2
        self.table[f"{name}.weight"] = Uniform((outputs, inputs, kernel, kernel), 1 / math.sqrt(fan_in))
        self.flops += 2 * outputs * fan_in * positions

    def norm(self, name: str, channels: int, *, is_of_batch: bool = False) -> None:
        """Add a norm with gain and bias per channel, and running moments if it is one over batches."""
        self.table |= {f"{name}.gain": Uniform((channels,), 0), f"{name}.bias": Uniform((channels,), 0)}
        if is_of_batch:
            self.buffers |= {f"{name}.mean": Constant((channels,), 0), f"{name}.variance": Constant((channels,), 1)}

    def linear(self, name: str, inputs: int, outputs: int) -> None:
        """Add a linear layer with bias."""
        bound = 1 / math.sqrt(inputs)
        self.table |= {f"{name}.weight": Uniform((outputs, inputs), bound), f"{name}.bias": Uniform((outputs,), bound)}
        self.flops += 2 * outputs * inputs


def image_shape(model: str, input_shape: tuple[int, ...], *, smallest: int = 1) -> tuple[int, int, int]:
    """Return channels, height and width of inputs of *input_shape*, [H, W] being one channel; *model* is for the message.

    Raises InputError if inputs are no images, or lower or narrower than *smallest*.
    """
    shape = input_shape if len(input_shape) == 3 else (1, *input_shape)
    if len(shape) != 3 or min(shape[1:]) < smallest:
        wanted = f"images of at least {smallest} x {smallest}, [height, width] or [channels, height, width]"
        problem = f"{model} needs {wanted}; the inputs of this benchmark have shape {list(input_shape)}"
        raise InputError("model.name", problem, hint='choose a benchmark of images, or model.name = "mlp"')
    channels, height, width = shape
    return channels, height, width


def check_norm(model: str, norm: str, groups: int, channels: tuple[int, ...], *, default: int) -> None:
    """Raise ValueError unless *groups*, of which there are *default* ones, are what the *norm* of *model* can have."""
    if norm == "group":
        check_groups(model, groups, channels)
    elif groups != default:
        raise ValueError(f'{model} has no groups with norm = "{norm}", and groups = {groups}')


def check_groups(model: str, groups: int, channels: tuple[int, ...]) -> None:
    """Raise ValueError unless *groups* divides the *channels* of every norm of *model*."""
    uneven = [count for count in channels if count % groups]
    if uneven:
        raise ValueError(f"{model} cannot put {uneven[0]} channels into {groups} groups of equal size")
