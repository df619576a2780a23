"""The layers of models, stacked: one call for all members gives the numbers of each, and copies nothing between layers."""

import torch

from contilab.models import layers

MEMBERS, BATCH, CHANNELS = 3, 4, 6


def draw(*shape, seed=0):
    """Return fixed random numbers in float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def images():
    """Return images of each member."""
    return draw(MEMBERS, BATCH, CHANNELS, 8, 8)


class TestStackedLayers:
    """Layers given the stacked tensors of several members."""

    def test_convolution(self):
        """A strided, padded convolution gives each member its own, with other numbers of channels in and out."""
        x, weight = images(), draw(MEMBERS, 4, CHANNELS, 3, 3, seed=1)
        alone = torch.stack([layers.conv2d(x[e], weight[e], stride=2, padding=1) for e in range(MEMBERS)])

        torch.testing.assert_close(layers.conv2d(x, weight, stride=2, padding=1), alone, rtol=1e-12, atol=1e-12)

    def test_norm(self):
        """Groups never reach over members."""
        x, gain, bias = images(), draw(MEMBERS, CHANNELS, seed=1), draw(MEMBERS, CHANNELS, seed=2)
        alone = torch.stack([layers.group_norm(x[e], 2, gain[e], bias[e]) for e in range(MEMBERS)])

        torch.testing.assert_close(layers.group_norm(x, 2, gain, bias), alone, rtol=1e-12, atol=1e-12)

    def test_norm_begins_as_torch_does(self):
        """With gain and bias of zero it is torch's group norm without affine part."""
        x = images()[0]
        zeros = torch.zeros(CHANNELS, dtype=torch.float64)

        # 1e-12: torch sums in another order without an affine part.
        found = layers.group_norm(x, 2, zeros, zeros)
        torch.testing.assert_close(found, torch.nn.functional.group_norm(x, 2), rtol=1e-12, atol=1e-12)

    def test_pooling(self):
        """The maximum of squares, a rest at the end dropped."""
        alone = torch.stack([layers.max_pool2d(own, 3) for own in images()])

        assert torch.equal(layers.max_pool2d(images(), 3), alone)

    def test_linear(self):
        """One batched product gives each member its own."""
        x, weight, bias = draw(MEMBERS, BATCH, 5), draw(MEMBERS, 2, 5, seed=1), draw(MEMBERS, 2, seed=2)
        alone = torch.stack([layers.linear(x[e], weight[e], bias[e]) for e in range(MEMBERS)])

        torch.testing.assert_close(layers.linear(x, weight, bias), alone, rtol=1e-12, atol=1e-12)

    def test_nothing_is_copied_between_layers(self):
        """What a stacked convolution, norm, ReLU or sum returns is the next layer's form in memory: [B, H, W, E*C]."""
        x = layers.conv2d(images(), draw(MEMBERS, CHANNELS, CHANNELS, 3, 3, seed=1), padding=1)
        x = layers.group_norm(x, 2, draw(MEMBERS, CHANNELS, seed=1), draw(MEMBERS, CHANNELS, seed=2))
        x = torch.relu(x + x)

        assert x.permute(1, 3, 4, 0, 2).is_contiguous()
