"""The ResNets against published counts and a network made of torch's own layers."""

import math

import pytest
import torch
from torch import nn

from contilab import catalog
from contilab.errors import InputError
from contilab.models import resnet18, resnet18r
from contilab.models.contract import MOMENTUM, WEIGHT

DTYPE = torch.float64


def counts(name, rows, shape=(3, 32, 32)):
    """Return how many parameters the model *name* has with its defaults."""
    entry = catalog.entry("model", name)
    return sum(math.prod(item.shape) for item in entry.make(entry.settings(), shape, rows).table.values())


class Block(nn.Module):
    """A basic block of torch's own layers."""

    def __init__(self, inputs, outputs, stride, norm):
        super().__init__()
        self.conv0 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm0 = norm(outputs)
        self.conv1 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1 = norm(outputs)
        self.shortcut = nn.Identity()
        if stride > 1:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))

    def forward(self, x):
        """Return the block's output."""
        inner = self.norm1(self.conv1(self.norm0(self.conv0(x)).relu()))
        return (inner + self.shortcut(x)).relu()


NORMS = {"group": lambda channels: nn.GroupNorm(4, channels), "batch": nn.BatchNorm2d}


def plain(kind):
    """Return the reduced ResNet-18 with 10 rows, made of torch's own layers in the order of its table."""
    norm = NORMS[kind]
    layers = [nn.Conv2d(3, 20, 3, 1, 1, bias=False), norm(20), nn.ReLU()]
    for inputs, outputs, stride in [(20, 20, 1), (20, 40, 2), (40, 80, 2), (80, 160, 2)]:
        layers += [Block(inputs, outputs, stride, norm), Block(outputs, outputs, 1, norm)]
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(160, 10)).to(DTYPE)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.GroupNorm | nn.BatchNorm2d):
                module.weight.add_(0.1 * torch.randn(module.weight.shape, generator=generator))
    return network


def params_of(network, model):
    """Return the parameters of *network* as *model* names them; the weights of its norms are the gains plus one."""
    values = zip(model.table, (value.detach() for value in network.parameters()), strict=True)
    return {name: (value - 1 if name.endswith("gain") else value.clone()).requires_grad_() for name, value in values}


def pictures(count=2):
    """Return fixed inputs."""
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(0), dtype=DTYPE)


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

    @pytest.mark.parametrize("norm", NORMS)
    def test_equals_torch_layers(self, norm):
        """Logits and gradients in training are those of torch's own layers, whose norms' weights are the gains plus one."""
        network = plain(norm)
        model = resnet18r.resnet18r(resnet18r.Settings(norm=norm), (3, 32, 32), 10)
        params, x = params_of(network, model), pictures()
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

    def test_refuses_groups_of_batch_norm(self):
        """Groups of a norm that has none would make two addresses of one run."""
        with pytest.raises(ValueError, match=r'resnet18r has no groups with norm = "batch", and groups = 2'):
            resnet18r.Settings(norm="batch", groups=2)


class TestBatchNorm:
    """The option `norm = "batch"`: running moments, and batches that count by weight."""

    MODEL = resnet18r.resnet18r(resnet18r.Settings(norm="batch"), (3, 32, 32), 10)

    def test_buffers_are_those_of_torch(self):
        """After steps in training, running moments and the logits of an exam are those of torch's own layers."""
        network = plain("batch")
        params = {name: value.detach() for name, value in params_of(network, self.MODEL).items()}
        buffers = {name: torch.full(item.shape, item.value, dtype=DTYPE) for name, item in self.MODEL.buffers.items()}
        for x in (pictures(3), pictures(4) + 1):
            moments = self.MODEL.forward(params, {}, x).moments
            buffers = {name: torch.lerp(value, moments[name], MOMENTUM) for name, value in buffers.items()}
            network(x)
        network.eval()
        theirs = [value for name, value in network.named_buffers() if "num_batches" not in name]

        torch.testing.assert_close(list(buffers.values()), theirs, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(self.MODEL.forward(params, buffers, x).logits, network(x), rtol=1e-10, atol=1e-10)

    def test_padding_does_not_count(self):
        """Samples of weight 0 change neither the logits of the others, nor gradients, nor moments."""
        params = params_of(plain("batch"), self.MODEL)
        x, weight = pictures(5), torch.tensor([1, 1, 0, 1, 0], dtype=DTYPE)
        kept = weight > 0
        padded, alone = self.MODEL.forward(params, {WEIGHT: weight}, x), self.MODEL.forward(params, {}, x[kept])
        gradients = [
            torch.autograd.grad(logits.square().sum(), list(params.values())) for logits in (padded.logits[kept], alone.logits)
        ]

        torch.testing.assert_close(padded.logits[kept], alone.logits, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(padded.moments, alone.moments, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-9)

    def test_exams_do_not_mix_samples(self):
        """With buffers a sample's logits do not depend on its batch, and nothing is collected."""
        params = params_of(plain("batch"), self.MODEL)
        moments = self.MODEL.forward(params, {}, pictures(6)).moments
        together = self.MODEL.forward(params, moments, pictures(3))
        alone = torch.cat([self.MODEL.forward(params, moments, x[None]).logits for x in pictures(3)])

        assert together.moments == {}
        torch.testing.assert_close(together.logits, alone, rtol=1e-10, atol=1e-10)

    def test_buffers_are_no_parameters(self):
        """It has the parameters of the GroupNorm form, and a mean and a variance for each channel of a norm beside them."""
        table = resnet18r.resnet18r(resnet18r.Settings(), (3, 32, 32), 10).table

        assert table == self.MODEL.table
        assert sum(math.prod(item.shape) for item in self.MODEL.buffers.values()) == 2 * sum(
            math.prod(item.shape) for name, item in table.items() if name.endswith("gain")
        )
