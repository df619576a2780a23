"""The multilayer perceptron against torch's own layers and against counts worked out by hand."""

import math

import pytest
import torch

from contilab.models.mlp import Settings, mlp


def parameters(model):
    """Return the number of parameters of a model."""
    return sum(math.prod(entry.shape) for entry in model.table.values())


class TestMlp:
    """The perceptron."""

    @pytest.mark.parametrize(("hidden", "count", "flops"), [((400, 400), 478_410, 955_200), ((100, 100), 89_610, 178_800)])
    def test_counts(self, hidden, count, flops):
        """The sizes of the literature: 2x400 and 2x100 on 784 inputs and 10 rows; 2 operations per multiply-add."""
        model = mlp(Settings(hidden=hidden), (28, 28), 10)

        assert (parameters(model), model.flops) == (count, flops)

    def test_equals_torch_layers(self):
        """Logits and features are those of torch.nn.Linear and ReLU in sequence, on flattened inputs."""
        layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3))
        model = mlp(Settings(hidden=(7,)), (3, 4), 3)
        values = [parameter.detach() for parameter in layers.parameters()]
        params = dict(zip(model.table, values, strict=True))
        x = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(0))

        forward = model.forward(params, {}, x)

        torch.testing.assert_close(forward.logits, layers(x), rtol=0, atol=0)
        torch.testing.assert_close(forward.features, layers[:3](x), rtol=0, atol=0)

    def test_starts_like_torch(self):
        """Bounds are those of torch.nn.Linear: its own draw fills ±1/sqrt(inputs) and stays inside."""
        model = mlp(Settings(hidden=(50,)), (30,), 10)
        torch.manual_seed(0)
        linear = torch.nn.Linear(30, 50).requires_grad_(False)
        bounds = [model.table["hidden0.weight"].bound, model.table["hidden0.bias"].bound]
        largest = [float(linear.weight.abs().max()), float(linear.bias.abs().max())]

        assert bounds == [1 / math.sqrt(30)] * 2
        assert all(0.9 * bound < peak <= bound for bound, peak in zip(bounds, largest, strict=True))

    def test_without_hidden_layers_is_linear(self):
        """No hidden layer leaves a linear model whose features are the flattened inputs."""
        model = mlp(Settings(hidden=()), (2, 2), 3)
        x = torch.randn(5, 2, 2, generator=torch.Generator().manual_seed(0))
        params = {"head.weight": torch.ones(3, 4), "head.bias": torch.zeros(3)}

        torch.testing.assert_close(model.forward(params, {}, x).features, x.reshape(5, 4))
        assert list(model.table) == ["head.weight", "head.bias"]

    def test_widths_from_json_are_a_tuple(self):
        """Settings read back from JSON, where widths are a list, equal those of the code."""
        assert Settings(hidden=[400, 400]) == Settings()
