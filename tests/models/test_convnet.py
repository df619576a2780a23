"""The small convolution net against torch's own layers and counts worked out by hand."""

import math

import pytest
import torch
from torch import nn

from contilab.errors import InputError
from contilab.models.convnet import Settings, convnet

DTYPE = torch.float64


class TestConvnet:
    """The small convolution net."""

    def test_counts(self):
        """Two blocks of 8 and 16 channels on 1 x 4 x 4: weights, gains, biases and head; 2 operations per multiply-add."""
        model = convnet(Settings(channels=(8, 16)), (4, 4), 3)
        parameters = 8 * 9 + 2 * 8 + 16 * 8 * 9 + 2 * 16 + 3 * 16 + 3
        flops = 2 * (8 * 9 * 16 + 16 * 8 * 9 * 4 + 3 * 16)

        assert (sum(math.prod(item.shape) for item in model.table.values()), model.flops) == (parameters, flops)

    def test_equals_torch_layers(self):
        """Features and logits are those of torch's own layers in sequence."""
        body = nn.Sequential(
            *(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.GroupNorm(8, 8), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.GroupNorm(8, 16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        ).to(DTYPE)
        head = nn.Linear(16 * 2 * 1, 5).to(DTYPE)
        model = convnet(Settings(channels=[8, 16]), (3, 8, 7), 5)
        values = [value.detach() for value in (*body.parameters(), *head.parameters())]
        params = {name: value - 1 if name.endswith("gain") else value for name, value in zip(model.table, values, strict=True)}
        x = torch.randn(2, 3, 8, 7, generator=torch.Generator().manual_seed(0), dtype=DTYPE)
        found = model.forward(params, {}, x)

        torch.testing.assert_close(found.features, body(x), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(found.logits, head(body(x)), rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("shape", [(20,), (7, 8), (3, 8, 7)])
    def test_refuses_what_it_cannot_halve(self, shape):
        """Inputs that are no images, or too small to be halved by every block, are refused with the smallest size."""
        with pytest.raises(InputError, match="needs images of at least 8 x 8"):
            convnet(Settings(), shape, 3)
