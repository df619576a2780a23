"""How active the hidden units of a member are: watched while its model runs, so that no model has to tell.

A hidden layer is what an activation function of torch returns, in the order in which the model calls them, whatever the model:
a perceptron's layers, each of a convolution net's, in a residual block both the inner one and its sum. Its units are features,
and of images channels: their activity is the mean over samples and positions. An activation that a model works out by other
functions (`x.clamp(min=0)`) is not seen, and a module of one's own that calls none has no hidden layers.

Shapes: N samples, K units of a layer.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from contilab.engine.evaluate import BATCH
from contilab.engine.pools import gathered
from contilab.models.contract import Forward

# Names of torch's functions and methods alike; those that work in place end in _.
ACTIVATIONS = (
    *("relu", "relu6", "leaky_relu", "prelu", "elu", "celu", "selu", "gelu", "silu", "mish"),
    *("sigmoid", "tanh", "softplus", "hardsigmoid", "hardswish", "hardtanh"),
)
IMAGE = 4  # axes of what has positions behind its units: samples, channels, height, width

Array = np.ndarray[Any, Any]


class _Watch(TorchFunctionMode):
    """Notes the sum over samples of the absolute activity of each unit of each hidden layer, [K] float64."""

    def __init__(self) -> None:
        super().__init__()
        self.sums: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "").rstrip("_") in ACTIVATIONS and isinstance(out, Tensor) and out.ndim > 1:
            self.sums.append(_by_unit(out.detach().abs()))
        return out


def features_and_activity(
    forward: Callable[[Tensor], Forward], inputs: Tensor, samples: Tensor, look: Callable[[], None]
) -> tuple[Array, list[Array]]:
    """Return the features [N, F] of *samples* of *inputs*, and E abs(u) of the units [K] of each hidden layer.

    *look* is called before each pass of *forward*.
    """
    features, sums = [], []
    with torch.no_grad():
        for part in torch.split(samples, BATCH):
            look()
            with _Watch() as watch:
                features.append(forward(gathered(inputs, part)).features)
            sums.append(watch.sums)
    return torch.cat(features).cpu().numpy(), [_mean(layer, len(samples)) for layer in zip(*sums, strict=True)]


def _by_unit(activity: Tensor) -> Tensor:
    """Return the sum over samples of the mean over positions: of [N, K, H, W] over the last two, of [N, P, K] over P."""
    if activity.ndim >= IMAGE:
        activity = activity.flatten(2).mean(-1, dtype=torch.float64)
    elif activity.ndim > 2:
        activity = activity.mean(1, dtype=torch.float64)
    return activity.sum(0, dtype=torch.float64)


def _mean(parts: Sequence[Tensor], count: int) -> Array:
    total: Array = torch.stack(list(parts)).sum(0).cpu().numpy()
    return total / count
