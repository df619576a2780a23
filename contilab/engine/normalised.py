"""A model that takes inputs as they are stored: 8-bit values become numbers of the model when a batch is gathered."""

import torch
from torch import Tensor

from contilab.data.normalisation import Normalisation
from contilab.models.contract import Forward, Model, Params


def normalised(
    model: Model, normalisation: Normalisation, input_shape: tuple[int, ...], *, device: torch.device, dtype: torch.dtype
) -> Model:
    """Return *model* for stored inputs [..., *input_shape]: `(x - shift) / scale` per channel, then its own forward pass.

    Shift and scale are put on the device once; made anew they would cost each step two copies from the host.
    """
    channels = (-1, *(1 for _ in input_shape[1:]))
    shift, scale = (torch.tensor(each, dtype=dtype, device=device).reshape(channels) for each in normalisation)
    is_shifted = any(normalisation.shift)

    def normalise(x: Tensor, into: Tensor | None = None) -> Tensor:
        values = x.to(dtype) if into is None else into.copy_(x)  # new memory, as stored inputs are of another type
        return (values.sub_(shift) if is_shifted else values).div_(scale)

    def forward(params: Params, buffers: Params, x: Tensor) -> Forward:
        return model.forward(params, buffers, normalise(x))

    return model._replace(forward=forward, normalise=normalise)
