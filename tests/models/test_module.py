"""Torch modules as models: the same numbers, first weights by the kind of layer, and refusals of what no member could own."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.func import vmap

from contilab.engine.ensemble import initial_params, stack
from contilab.errors import InputError
from contilab.models.module import from_module

SHAPE, ROWS = (3, 8, 8), 5


def network():
    """Return a small convolution net of torch's own layers."""
    body = [nn.Conv2d(3, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten()]
    return nn.Sequential(*body, nn.Linear(16, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, ROWS))


class Pair(nn.Linear):
    """A module that returns two things."""

    def forward(self, x):
        """Return the product twice."""
        return super().forward(x.flatten(1)), x


class Meeting(nn.Module):
    """A layer in which threads wait for each other, once there is somebody to wait for."""

    barrier: threading.Barrier | None = None

    def forward(self, x):
        """Return *x*."""
        if self.barrier:
            self.barrier.wait(10)
        return x


class Unique(nn.Linear):
    """A module that cannot be copied."""

    def __init__(self):
        super().__init__(192, ROWS)
        self.lock = threading.Lock()


class Scaled(nn.Linear):
    """A module with a parameter of its own."""

    def __init__(self):
        super().__init__(3, ROWS)
        self.norm = nn.ParameterList([nn.Parameter(torch.ones(1))])


class TestModule:
    """A module as a model."""

    def test_gives_the_numbers_of_the_module(self):
        """With the module's own parameters, norm weights counted from 1, logits are its own; features enter its last layer."""
        module = network()
        model = from_module(module, SHAPE, ROWS)
        params = {name: value.detach() - int(name in ("1.weight", "6.weight")) for name, value in module.named_parameters()}
        x = torch.randn(4, *SHAPE, generator=torch.Generator().manual_seed(0))
        found = model.forward(params, {}, x)

        torch.testing.assert_close(found.logits, module(x), rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(found.features, module[:-1](x), rtol=1e-6, atol=1e-6)

    def test_threads_do_not_see_each_others_parameters(self, monkeypatch):
        """Two threads within the same forward pass, each with its own parameters, get what each gets alone."""
        model = from_module(
            nn.Sequential(nn.Flatten(), Meeting(), nn.Linear(192, 6), Meeting(), nn.Linear(6, ROWS)), SHAPE, ROWS
        )
        members = [initial_params(model, seed, device=torch.device("cpu"), dtype=torch.float32) for seed in range(2)]
        x = torch.randn(4, *SHAPE, generator=torch.Generator().manual_seed(0))
        alone = [model.forward(params, {}, x) for params in members]
        monkeypatch.setattr(Meeting, "barrier", threading.Barrier(2))
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda params: model.forward(params, {}, x), members))

        for one, other in zip(found, alone, strict=True):
            assert torch.equal(one.logits, other.logits)
            assert torch.equal(one.features, other.features)

    def test_starts_by_the_kind_of_layer(self):
        """Linear layers and convolutions within ±1/sqrt(inputs of one output), norms as the identity; operations by count."""
        model = from_module(network(), SHAPE, ROWS)
        bounds = {name: round(item.bound**-2) if item.bound else 0 for name, item in model.table.items()}

        assert bounds == {
            f"{layer}.{name}": inputs
            for layer, inputs in ((0, 27), (1, 0), (5, 16), (6, 0), (8, 6))
            for name in ("weight", "bias")
        }
        assert model.flops == 2 * (4 * 27 * 64 + 16 * 6 + 6 * ROWS)
        assert model.is_convolutional

    def test_members_together(self):
        """Under vmap each member gets what it gets alone."""
        model = from_module(network(), SHAPE, ROWS)
        members = [initial_params(model, seed, device=torch.device("cpu"), dtype=torch.float64) for seed in range(3)]
        x = torch.randn(3, 4, *SHAPE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        alone = stack([model.forward(params, {}, own) for params, own in zip(members, x, strict=True)])

        together = vmap(lambda params, x: model.forward(params, {}, x))(stack(members), x)
        torch.testing.assert_close(together, alone, rtol=1e-10, atol=1e-10)

    @pytest.mark.parametrize(
        ("module", "problem"),
        [
            (nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(192, ROWS)), r"has a BatchNorm2d \(0\)"),
            (nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(192, ROWS)), r"has a Dropout \(1\)"),
            (nn.Sequential(nn.Flatten(), nn.PReLU(), nn.Linear(192, ROWS)), "parameters in 1, a PReLU, whose start"),
            (Scaled(), "parameters in norm, a ParameterList, whose start"),
            (nn.Sequential(nn.Conv2d(3, ROWS, 8), nn.Flatten()), "has no linear layer"),
            (nn.Sequential(nn.Flatten(), nn.Linear(192, ROWS + 1)), r"turns 2 inputs into \[2, 6\], not into logits \[2, 5\]"),
            (
                nn.Sequential(nn.Flatten(), Unique()),
                "cannot be copied, and each thread that trains needs its own: cannot pickle",
            ),
            (Pair(192, ROWS), "into tuple, not into logits"),
        ],
    )
    def test_what_is_refused(self, module, problem):
        """Running statistics, random numbers, unknown starts, no head, no copy and wrong outputs: one sentence each."""
        with pytest.raises(InputError, match=problem):
            from_module(module, SHAPE, ROWS)

    def test_refuses_buffers(self):
        """A buffer is state beside the parameters, which no member could have alone."""
        module = network()
        module.register_buffer("count", torch.zeros(1))

        with pytest.raises(InputError, match="has buffers in itself"):
            from_module(module, SHAPE, ROWS)
