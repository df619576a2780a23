"""Every model of the catalog keeps the contract of models."""

import pytest
import torch
from torch.func import grad, vmap
from torch.utils.flop_counter import FlopCounterMode

from contilab import catalog
from contilab.engine.ensemble import initial_params, stack
from contilab.engine.importance import Samples, importance
from contilab.models.contract import Model, Uniform
from contilab.models.layout import channels_last, lay_out
from contilab.strategies.contract import Importance

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


def cross_entropy(logits):
    """Return the summed cross-entropy [] of logits [B, C] whose labels are all 0."""
    return (logits.logsumexp(-1) - logits[:, 0]).sum()


def loss_of(model):
    """Return the loss of *model* as a function of parameters and inputs."""
    return lambda params, x: cross_entropy(model.forward(params, {}, x).logits)


def members_of(model, count=3):
    """Return parameters of *count* members, and inputs of each."""
    return [params_of(model, seed) for seed in range(count)], torch.stack([inputs_of(5) + member for member in range(count)])


# Eleven million parameters are slow in float64, and only its width tells ResNet-18 from its reduced form.
SLOW = {"resnet18"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in catalog.MODELS]
)
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
        members, inputs = members_of(model)
        alone = torch.stack([model.forward(params, {}, x).logits for params, x in zip(members, inputs, strict=True)])
        gradient = stack([grad(loss_of(model))(params, x) for params, x in zip(members, inputs, strict=True)])

        # 1e-10: float64; batched kernels sum in another order.
        together = vmap(lambda params, x: model.forward(params, {}, x).logits)(stack(members), inputs)
        torch.testing.assert_close(together, alone, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(vmap(grad(loss_of(model)))(stack(members), inputs), gradient, rtol=1e-10, atol=1e-10)

    def test_takes_members(self, name):
        """Given stacked parameters and inputs, each member gets the features, logits and gradients that it gets alone."""
        model = built(name)
        assert model.takes_members, "every model of the catalog does; one that cannot needs a test of its own"
        members, inputs = members_of(model)
        alone = stack([model.forward(params, {}, x) for params, x in zip(members, inputs, strict=True)])
        gradient = stack([grad(loss_of(model))(params, x) for params, x in zip(members, inputs, strict=True)])

        def loss(params):
            return vmap(cross_entropy)(model.forward(params, {}, inputs).logits).sum()

        # 1e-10: float64; batched kernels sum in another order.
        torch.testing.assert_close(model.forward(stack(members), {}, inputs), alone, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(grad(loss)(stack(members)), gradient, rtol=1e-10, atol=1e-10)

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

    def test_flops_are_those_that_torch_counts(self, name):
        """The operations of a forward pass of one sample are what torch counts while it runs."""
        model = built(name)
        params = params_of(model, 0)

        with FlopCounterMode(display=False) as counter:
            model.forward(params, {}, inputs_of(1))

        assert model.flops == counter.get_total_flops()

    def test_reads_every_parameter(self, name):
        """No parameter of the table is idle: the loss has a gradient in each that is not zero."""
        model = built(name)
        gradient = grad(loss_of(model))(params_of(model, 0), inputs_of(5))

        assert {key for key, value in gradient.items() if not value.any()} == set()

    def test_begins_the_same_for_each_seed(self, name):
        """The engine draws equal weights for equal seeds, others for other seeds; first logits are finite and not alike."""
        model = built(name)
        first, again, other = (initial_params(model, seed, device=torch.device("cpu"), dtype=DTYPE) for seed in (1, 1, 2))
        logits = model.forward(first, {}, inputs_of(5)).logits

        torch.testing.assert_close(again, first, rtol=0, atol=0)
        assert {key for key, item in model.table.items() if torch.equal(first[key], other[key])} == {
            key for key, item in model.table.items() if item.bound == 0
        }
        assert logits.isfinite().all()
        assert logits.std(0).min() > 1e-3

    def test_keeps_the_type_of_its_parameters(self, name):
        """Nothing inside is of a fixed type: float32 gives float32, close to what float64 gives."""
        model = built(name)
        params, x = params_of(model, 0), inputs_of(5)
        single = model.forward({key: value.float() for key, value in params.items()}, {}, x.float()).logits

        # 1e-4: float32 over up to 18 layers.
        torch.testing.assert_close(single, model.forward(params, {}, x).logits.float(), rtol=1e-4, atol=1e-4)

    def test_channels_last_changes_no_number(self, name):
        """Laid out in channels_last, with parameters kept so or not, logits and gradients are the same within rounding."""
        model = built(name)
        params, x = params_of(model, 0), inputs_of(5)
        there = channels_last(model)
        expected = model.forward(params, {}, x), grad(loss_of(model))(params, x)

        for own in (params, lay_out(params)):
            found = there.forward(own, {}, x), grad(loss_of(there))(own, x)
            torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)

    def test_importance_equals_sample_by_sample(self, name):
        """The importance that the engine finds is the mean of the squared gradient of each sample."""
        model = built(name)
        params, x = params_of(model, 0), inputs_of(3)
        row, mask = torch.tensor([0, 1, 2]), torch.ones(3, ROWS, dtype=torch.bool)

        def log_probability(logits, row, _mask, _uniform):
            return torch.log_softmax(logits, -1).gather(0, row[None]), logits.new_ones(1)

        def one(sample):
            def value(params):
                return log_probability(model.forward(params, {}, x[sample : sample + 1]).logits[0], row[sample], None, None)[
                    0
                ].sum()

            return grad(value)(params)

        squares = [{key: value.square() for key, value in one(sample).items()} for sample in range(3)]
        expected = {key: torch.stack([each[key] for each in squares]).mean(0) for key in params}

        found = importance(model, params, Importance(3, log_probability, "square"), Samples(x, row, mask, torch.rand(3)))
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
