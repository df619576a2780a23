"""Every model of the catalog keeps the contract of models."""

import pytest
import torch
from torch.func import grad, vmap

from contilab import catalog
from contilab.models.contract import Model, Uniform

SHAPE, ROWS, DTYPE = (1, 8, 8), 4, torch.float64


def built(name) -> Model:
    """Return the model of the default settings."""
    entry = catalog.entry("model", name)
    return entry.make(entry.settings(), SHAPE, ROWS)


def params_of(model, seed):
    """Return parameters drawn from the distributions of the table."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: (2 * torch.rand(shape, generator=generator, dtype=DTYPE) - 1) * bound
        for name, (shape, bound) in model.table.items()
    }


def inputs_of(count):
    """Return a fixed batch of inputs."""
    return torch.randn(count, *SHAPE, generator=torch.Generator().manual_seed(99), dtype=DTYPE)


def stacked(trees):
    """Return parameters of several members as one, with the member axis first."""
    return {name: torch.stack([tree[name] for tree in trees]) for name in trees[0]}


@pytest.mark.parametrize("name", catalog.MODELS)
class TestModel:
    """What every model has to keep."""

    def test_returns_features_and_logits(self, name):
        """A batch gives one row of features and one row of raw logits per sample."""
        model = built(name)
        forward = model.forward(params_of(model, 0), {}, inputs_of(5))

        assert forward.logits.shape == (5, ROWS)
        assert forward.features.shape[0] == 5
        assert forward.features.ndim == 2

    def test_changes_no_argument(self, name):
        """Parameters and inputs are left as they were."""
        model = built(name)
        params, x = params_of(model, 0), inputs_of(5)
        before = {key: value.clone() for key, value in params.items()}, x.clone()

        model.forward(params, {}, x)

        torch.testing.assert_close((params, x), before, rtol=0, atol=0)

    def test_ensemble_equals_members(self, name):
        """Under vmap, forward and backward, each member gets what it gets alone, on inputs of its own."""
        model = built(name)
        members = [params_of(model, seed) for seed in range(3)]
        inputs = torch.stack([inputs_of(5) + member for member in range(3)])

        def loss(params, x):
            logits = model.forward(params, {}, x).logits
            return (logits.logsumexp(-1) - logits[:, 0]).sum()

        alone = torch.stack([model.forward(params, {}, x).logits for params, x in zip(members, inputs, strict=True)])
        gradient = stacked([grad(loss)(params, x) for params, x in zip(members, inputs, strict=True)])

        # 1e-10: float64; batched kernels sum in another order.
        together = vmap(lambda params, x: model.forward(params, {}, x).logits)(stacked(members), inputs)
        torch.testing.assert_close(together, alone, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(vmap(grad(loss))(stacked(members), inputs), gradient, rtol=1e-10, atol=1e-10)

    def test_samples_do_not_touch_each_other(self, name):
        """A sample's logits do not depend on the rest of its batch."""
        model = built(name)
        params, x = params_of(model, 0), inputs_of(5)

        alone = torch.cat([model.forward(params, {}, x[index : index + 1]).logits for index in range(5)])

        torch.testing.assert_close(model.forward(params, {}, x).logits, alone, rtol=1e-10, atol=1e-10)

    def test_gradient_is_that_of_the_logits(self, name):
        """The gradient along a random direction equals a central difference in float64."""
        model = built(name)
        params, direction, x = params_of(model, 0), params_of(model, 1), inputs_of(3)

        def value(step):
            moved = {key: theta + step * direction[key] for key, theta in params.items()}
            return model.forward(moved, {}, x).logits.square().sum()

        step = torch.tensor(0.0, dtype=DTYPE)
        width = 1e-6
        difference = (value(step + width) - value(step - width)) / (2 * width)

        torch.testing.assert_close(grad(value)(step), difference, rtol=1e-6, atol=1e-8)

    def test_table_says_how_to_start(self, name):
        """The table is a plan for drawing: shapes and bounds; a forward pass costs at least one operation per weight."""
        model = built(name)

        assert all(isinstance(entry, Uniform) and entry.bound >= 0 for entry in model.table.values())
        assert model.flops >= sum(torch.Size(entry.shape).numel() for entry in model.table.values() if len(entry.shape) > 1)
