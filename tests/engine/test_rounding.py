"""Chains in bf16 by hand: factors that the library rounds, or tensors in bf16; and what stays as it is."""

import pytest
import torch

from contilab import catalog
from contilab.engine.choice.form import Form
from contilab.engine.choice.pace import Pace
from contilab.engine.ensemble import initial_params, stack
from contilab.engine.environment import TABLE
from contilab.engine.executions import rounding as module
from contilab.engine.executions.layered import takes
from contilab.engine.executions.mixed import FEW, Mixed
from contilab.engine.executions.passes import by_hand
from contilab.engine.executions.rounding import Rounded, is_offered
from contilab.engine.setup import draws_of, initial_members, initial_memory
from contilab.models.contract import Model
from contilab.spec.sections import Train

offered = pytest.mark.skipif(not is_offered(), reason="this processor or torch rounds no factors of fp32 products")
LARGE = FEW + 16


@pytest.fixture(params=[pytest.param(True, marks=offered, id="rounded"), pytest.param(False, id="mixed")])
def way(request, monkeypatch):
    """Let chains be computed in either way: the library rounds factors, or tensors are in bf16."""
    monkeypatch.setattr(module, "is_offered", lambda: request.param)
    return request.param


def perceptron(**changes) -> tuple[Model, dict]:
    """Return a perceptron 196-64-64-10 and two stacked members of it.

    Biases hold all units on: one near zero, on in one arithmetic and off in another, would weigh more than all rounding.
    """
    entry = catalog.entry("model", "mlp")
    model = entry.make(entry.settings(hidden=(64, 64)), (196,), 10)._replace(**changes)
    cpu = torch.device("cpu")
    params = stack([initial_params(model, seed, device=cpu, dtype=torch.float32) for seed in range(2)])
    for name in ("hidden0.bias", "hidden1.bias"):
        params[name].fill_(6.0)
    return model, params


def parameters_after(make, batch: int, settings: dict, precision: str) -> torch.Tensor:
    """Return the parameters of two perceptrons after five batched steps, in one row."""
    train = Train(steps=5, batch=batch)
    runs = [make.run(seed, model=("mlp", {"hidden": (64, 64)}), optim=("sgd", settings), train=train) for seed in range(2)]
    setup = make.setup(runs, make.stream((200, 200)))
    execution = TABLE.maker(Form("batched", precision))(setup.learner)
    [stage, *_] = setup.stages
    draws = draws_of(setup).chunk(stage, stage.schedule.chunk(0, 5), initial_memory(setup))
    trained, _ = execution.train(execution.gather(initial_members(setup)), setup.lesson(stage), draws)
    return torch.cat([value.flatten() for member in execution.scatter(trained) for value in member.params.values()])


def drawn(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and gradients of logits."""
    generator = torch.Generator().manual_seed(batch)
    return torch.randn(2, batch, 196, generator=generator), torch.randn(2, batch, 10, generator=generator)


def by_autocast(batch: int) -> dict:
    """Return the gradients of all parameters by automatic differentiation with bf16 tensors."""
    model, params = perceptron()
    x, d = drawn(batch)
    leaves = {name: value.requires_grad_() for name, value in params.items()}
    with torch.autocast("cpu", torch.bfloat16):
        logits = model.forward(leaves, {}, x).logits
    return dict(zip(leaves, torch.autograd.grad(logits, tuple(leaves.values()), d.to(logits.dtype)), strict=True))


def gradients(batch: int, **changes) -> dict:
    """Return the gradients of all parameters by hand."""
    model, params = perceptron(**changes)
    x, d = drawn(batch)
    own, found = by_hand(model, params, batch), {name: torch.empty_like(value) for name, value in params.items()}
    own.forward(x)
    own.gradients(d, found)
    return found


class TestRounded:
    """The context."""

    @offered
    @pytest.mark.parametrize("shape", [(96, 96), (3, 96, 96)], ids=["one", "several"])
    def test_is_a_product_of_rounded_factors(self, shape):
        """A product in it is that of the factors rounded to bf16, with sums in fp32."""
        one, other = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))
        expected = (one.bfloat16().double() @ other.bfloat16().double()).float()
        with Rounded():
            found = one @ other

        assert found.dtype == torch.float32
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-4)
        assert float((found - one @ other).abs().max()) > 1e-3

    @offered
    def test_ends(self):
        """After it products are exact again, also where it ends by an error."""
        values = torch.full((128, 128), 1 + 2**-10)
        exact = values @ values
        with pytest.raises(RuntimeError), Rounded():
            raise RuntimeError
        assert torch.equal(values @ values, exact)


class TestLayered:
    """Chains of linear layers by hand."""

    @pytest.mark.parametrize("batch", [16, LARGE])
    def test_gradients_as_near_fp32_as_those_of_autocast(self, way, batch):
        """Every gradient is fp32, and no farther from that of exact products than what autocast gives."""
        exact, rounded, cast = gradients(batch), gradients(batch, rounds=True), by_autocast(batch)

        for name, value in exact.items():
            distances = [float((other[name] - value).norm()) for other in (rounded, cast)]
            assert rounded[name].dtype == torch.float32
            assert distances[0] <= 1.1 * distances[1]
        assert not torch.equal(exact["hidden0.weight"], rounded["hidden0.weight"])

    def test_which_way(self, way):
        """Tensors are in bf16 where the library does not round factors, and nowhere else."""
        model, params = perceptron(rounds=True)

        assert isinstance(by_hand(model, params, 16), Mixed) == (not way)
        assert not isinstance(by_hand(model._replace(rounds=False), params, 16), Mixed)

    def test_on_another_device(self, way):
        """A chain in bf16 is computed by hand on a processor only; in fp32 it is everywhere."""
        model, params = perceptron(rounds=True)
        elsewhere = {name: value.to("meta") for name, value in params.items()}

        assert takes(model, params)
        assert not takes(model, elsewhere)
        assert takes(model._replace(rounds=False), elsewhere)

    def test_without_a_chain(self):
        """Models that are no chain are never computed by hand."""
        model, params = perceptron(chain=())
        assert not takes(model, params)


class TestTraining:
    """Whole steps."""

    @pytest.mark.parametrize("settings", [{}, {"momentum": 0.9, "weight_decay": 0.01}], ids=["plain", "all"])
    @pytest.mark.parametrize("batch", [16, LARGE])
    def test_folded_updates_are_those_by_gradients(self, way, make, settings, batch):
        """Products that move the weights themselves round as those do that make gradients, and otherwise than fp32.

        The rate is a power of two: gradients times it have the bf16 digits that they have without. Few samples of tensors in
        bf16 have folded updates in fp32, and differ by less than a gradient in bf16 may.
        """
        folded, found, exact = (
            parameters_after(make, batch, {"lr": 0.125, **settings, **more}, precision)
            for more, precision in (({}, "bf16"), ({"clip_norm": 1e9}, "bf16"), ({}, "fp32"))
        )

        torch.testing.assert_close(folded, found, rtol=1e-4, atol=1e-4 if way or batch > FEW else 1e-3)
        assert float((folded - exact).abs().max()) > 1e-4

    @pytest.mark.parametrize("batch", [16, LARGE])
    def test_parameters_take_what_bf16_could_not(self, way, make, batch):
        """Updates far below the spacing of bf16 numbers move every weight: parameters are kept, and added to, in fp32."""
        before, after = (parameters_after(make, batch, {"lr": lr}, "bf16") for lr in (0.0, 2.0**-14))
        by_fp32 = parameters_after(make, batch, {"lr": 2.0**-14}, "fp32")

        moved, expected = after - before, by_fp32 - before
        assert float(moved.abs().max()) < 2.0**-10
        assert float((moved - expected).norm()) < 0.05 * float(expected.norm())

    @offered
    @pytest.mark.parametrize("method", ["ewc", "agem", "gem"])
    def test_what_a_strategy_multiplies_is_exact(self, make, monkeypatch, method):
        """Penalties and projections multiply in fp32; only the products of the model are rounded."""
        seen, outside = [], torch.backends.mkldnn.matmul.fp32_precision
        setup = make.setup([make.run(seed, method) for seed in range(2)])
        strategy = setup.learner.strategy
        name = "penalty" if strategy.penalty is not None else "project"
        plain = getattr(strategy, name)

        def watched(*arguments):
            seen.append(torch.backends.mkldnn.matmul.fp32_precision)
            return plain(*arguments)

        learner = setup.learner._replace(strategy=strategy._replace(**{name: watched}))
        pace = Pace(setup._replace(learner=learner, stages=setup.stages[1:]), TABLE.maker(Form("batched", "bf16")))
        pace.lap(3)

        assert seen
        assert set(seen) == {outside}
