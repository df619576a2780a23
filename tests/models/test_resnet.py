"""The ResNets against published counts and a network made of torch's own layers."""

import math

import pytest
import torch
from torch import nn

from contilab import catalog
from contilab.errors import InputError
from contilab.models import resnet18, resnet18r

DTYPE = torch.float64


def counts(name, rows, shape=(3, 32, 32)):
    """Return how many parameters the model *name* has with its defaults."""
    entry = catalog.entry("model", name)
    return sum(math.prod(item.shape) for item in entry.make(entry.settings(), shape, rows).table.values())


class Block(nn.Module):
    """A basic block of torch's own layers."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv0 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm0 = nn.GroupNorm(4, outputs)
        self.conv1 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1 = nn.GroupNorm(4, outputs)
        self.shortcut = nn.Identity()
        if stride > 1:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.GroupNorm(4, outputs))

    def forward(self, x):
        """Return the block's output."""
        inner = self.norm1(self.conv1(self.norm0(self.conv0(x)).relu()))
        return (inner + self.shortcut(x)).relu()


def plain():
    """Return the reduced ResNet-18 with 10 rows, made of torch's own layers in the order of its table."""
    layers = [nn.Conv2d(3, 20, 3, 1, 1, bias=False), nn.GroupNorm(4, 20), nn.ReLU()]
    for inputs, outputs, stride in [(20, 20, 1), (20, 40, 2), (40, 80, 2), (80, 160, 2)]:
        layers += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(160, 10)).to(DTYPE)


class TestResnet:
    """ResNet-18 and its reduced form."""

    @pytest.mark.parametrize(
        ("name", "rows", "count"),
        [
            ("resnet18r", 10, 1_094_750),
            ("resnet18r", 100, 1_109_240),
            ("resnet18", 10, 11_173_962),
            ("resnet18", 100, 11_220_132),
        ],
    )
    def test_counts(self, name, rows, count):
        """Parameters on 3 x 32 x 32: those of GEM's and DER's networks, whose norms have as many."""
        assert counts(name, rows) == count

    def test_equals_torch_layers(self):
        """Logits and gradients are those of torch's own layers, whose norms' weights are the gains plus one."""
        network = plain()
        with torch.no_grad():
            for module in network.modules():
                if isinstance(module, nn.GroupNorm):
                    module.weight.add_(0.1 * torch.randn(module.weight.shape, generator=torch.Generator().manual_seed(1)))
        model = resnet18r.resnet18r(resnet18r.Settings(), (3, 32, 32), 10)
        values = [value.detach() for value in network.parameters()]
        params = {
            name: (value - 1 if name.endswith("gain") else value.clone()).requires_grad_()
            for name, value in zip(model.table, values, strict=True)
        }
        x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0), dtype=DTYPE)
        ours, theirs = model.forward(params, {}, x).logits, network(x)
        gradients = [
            torch.autograd.grad(logits.square().sum(), list(leaves))
            for logits, leaves in ((ours, params.values()), (theirs, network.parameters()))
        ]

        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)

    @pytest.mark.parametrize("shape", [(8, 8), (28, 28), (1, 9, 7), (3, 64, 64)])
    def test_takes_images_of_any_size(self, shape):
        """Images without channels are grey ones; odd sizes are halved upwards; features are 8 times the channels."""
        model = resnet18r.resnet18r(resnet18r.Settings(), shape, 3)
        params = {name: torch.zeros(item.shape) for name, item in model.table.items()}

        assert model.forward(params, {}, torch.zeros(2, *shape)).features.shape == (2, 160)

    @pytest.mark.parametrize("shape", [(784,), (2, 3, 8, 8), ()])
    def test_refuses_what_is_no_image(self, shape):
        """Inputs that are no images are the user's fault; the sentence names the shape and a way out."""
        with pytest.raises(InputError, match=r"needs images .* have shape \[") as raised:
            resnet18.resnet18(resnet18.Settings(), shape, 3)

        assert raised.value.faults[0].place == "model.name"

    def test_refuses_uneven_groups(self):
        """Groups that do not divide the channels of a stage are refused when the settings are read."""
        with pytest.raises(ValueError, match="cannot put 20 channels into 8 groups"):
            resnet18r.Settings(groups=8)
