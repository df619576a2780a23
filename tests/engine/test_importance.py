"""Importances are means of per-sample reductions, equal for any chunk or batch and for both ways to find them."""

import numpy as np
import pytest
import torch

from contilab import catalog
from contilab.engine import closing
from contilab.engine import importance as subject
from contilab.engine.importance import Samples, importance
from contilab.engine.setup import initial_members
from contilab.models.contract import Forward, Model, Uniform
from contilab.spec.sections import Train
from contilab.strategies.contract import MASKED

ROWS, WIDTH, COUNT = 5, 6, 40


def asked_by(method, **settings):
    """Return what *method* asks the engine for."""
    entry = catalog.entry("method", method)
    return entry.make(entry.settings(**settings)).importance


REQUESTS = {**{name: asked_by("ewc", fisher=name) for name in ("empirical", "exact", "sampled")}, "mas": asked_by("mas")}
every_request = pytest.mark.parametrize("request_name", REQUESTS)


def samples():
    """Return samples in float64 of which each allows at least its own row."""
    generator = torch.Generator().manual_seed(0)
    row = torch.randint(0, ROWS, (COUNT,), generator=generator)
    mask = torch.nn.functional.one_hot(row, ROWS).bool() | (torch.arange(ROWS) < 3)
    inputs = torch.randn(COUNT, WIDTH, generator=generator, dtype=torch.float64)
    return Samples(inputs, row, mask, torch.rand(COUNT, generator=generator, dtype=torch.float64))


def perceptron():
    """Return the MLP of the catalog."""
    entry = catalog.entry("model", "mlp")
    return entry.make(entry.settings(hidden=(7,)), (WIDTH,), ROWS)


def bilinear():
    """Return a model whose parameters are read outside of linear layers too."""
    table = {"weight": Uniform((ROWS, WIDTH), 0.5), "scale": Uniform((ROWS,), 0.5)}

    def forward(params, _buffers, x):
        return Forward(x, torch.nn.functional.linear(x, params["weight"] * params["scale"][:, None]))

    return Model(table, forward, flops=2 * ROWS * WIDTH)


def tied():
    """Return a model that reads one weight in a linear layer and once more beside it."""
    table = {"weight": Uniform((ROWS, WIDTH), 0.5)}

    def forward(params, _buffers, x):
        return Forward(x, torch.nn.functional.linear(x, params["weight"]) + params["weight"].sum())

    return Model(table, forward, flops=2 * ROWS * WIDTH)


MODELS = {"mlp": perceptron, "bilinear": bilinear, "tied": tied}


def params_of(model):
    """Return parameters in float64."""
    generator = torch.Generator().manual_seed(1)
    return {name: torch.randn(item.shape, generator=generator, dtype=torch.float64) for name, item in model.table.items()}


def one_by_one(model, params, request, batch):
    """Return the importance by plain autograd, one sample and one term at a time."""
    reduce = {"square": np.square, "abs": np.abs}[request.reduce]
    total = {name: np.zeros(value.shape) for name, value in params.items()}
    for sample in range(COUNT):
        leaves = {name: value.clone().requires_grad_() for name, value in params.items()}
        logits = model.forward(leaves, {}, batch.inputs[sample : sample + 1]).logits[0]
        values, weights = request.terms(logits, batch.row[sample], batch.mask[sample], batch.uniform[sample])
        for value, weight in zip(values, weights, strict=True):
            grads = torch.autograd.grad(value, list(leaves.values()), retain_graph=True)
            for name, grad in zip(params, grads, strict=True):
                total[name] += float(weight) * reduce(grad.numpy()) / COUNT
    return total


@every_request
@pytest.mark.parametrize("model_name", MODELS)
class TestImportance:
    """Importance of any model."""

    def test_equals_autograd_sample_by_sample(self, model_name, request_name):
        """Within float64 rounding it is the mean over samples of the reduced gradient of each."""
        model, batch = MODELS[model_name](), samples()
        params = params_of(model)
        expected = one_by_one(model, params, REQUESTS[request_name], batch)
        found = importance(model, params, REQUESTS[request_name], batch)

        assert all(np.allclose(expected[name], found[name].numpy(), rtol=1e-10, atol=1e-14) for name in params)

    @pytest.mark.parametrize("sizes", [{"chunk": 1, "batch": 64}, {"chunk": 64, "batch": 1}])
    def test_is_the_same_for_any_chunk_and_batch(self, model_name, request_name, sizes):
        """Worked on one by one or 64 at a time, trained by batches of 64 or of one: never the square of a batch gradient."""
        model, batch = MODELS[model_name](), samples()
        params = params_of(model)
        some = importance(model, params, REQUESTS[request_name], batch, chunk=7)
        other = importance(model, params, REQUESTS[request_name], batch, **sizes)

        assert all(torch.allclose(some[name], other[name], rtol=1e-10, atol=1e-14) for name in params)


class TestBatches:
    """Importances of batch gradients, where a request wants those."""

    def test_is_the_square_of_mean_gradients(self):
        """Forty samples by 16 are three batches, the last of 8, each the square of its mean gradient and counted once."""
        model, batch = perceptron(), samples()
        params = params_of(model)
        expected = {name: torch.zeros_like(value) for name, value in params.items()}
        for part in (slice(0, 16), slice(16, 32), slice(32, 40)):
            leaves = {name: value.clone().requires_grad_() for name, value in params.items()}
            allowed = torch.where(batch.mask[part], model.forward(leaves, {}, batch.inputs[part]).logits, MASKED)
            grads = torch.autograd.grad(torch.nn.functional.cross_entropy(allowed, batch.row[part]), list(leaves.values()))
            expected = {name: expected[name] + grad**2 / 3 for name, grad in zip(params, grads, strict=True)}
        found = importance(model, params, asked_by("ewc", fisher="batch"), batch, batch=16)

        assert all(torch.allclose(expected[name], found[name], rtol=1e-10, atol=1e-14) for name in params)

    def test_of_one_sample_each_is_that_of_samples(self):
        """Batches of one sample give the importance that is a mean over samples."""
        model, batch = bilinear(), samples()
        params = params_of(model)
        single = importance(model, params, asked_by("ewc", fisher="batch"), batch, batch=1)
        usual = importance(model, params, REQUESTS["empirical"], batch)

        assert all(torch.allclose(usual[name], single[name], rtol=1e-10, atol=1e-14) for name in params)


class TestLinearLayers:
    """The short way through linear layers."""

    def test_is_taken_by_the_perceptron(self, monkeypatch):
        """The MLP never writes per-sample gradients down."""
        monkeypatch.setattr(subject, "_sums_by_sample", None)
        model = perceptron()

        assert importance(model, params_of(model), REQUESTS["empirical"], samples()).keys() == model.table.keys()

    def test_long_way_splits_by_memory(self, monkeypatch):
        """With room for two per-sample gradients the long way gives the same numbers in parts of two."""
        model = bilinear()
        params = params_of(model)
        whole = importance(model, params, REQUESTS["exact"], samples())
        monkeypatch.setattr(subject, "CHUNK_BYTES", 2 * 4 * ROWS * 8 * (ROWS * WIDTH + ROWS))
        parts = importance(model, params, REQUESTS["exact"], samples())

        assert all(torch.allclose(whole[name], parts[name], rtol=1e-10, atol=1e-14) for name in params)

    def test_logistic_regression_has_its_closed_form(self):
        """Exact Fisher of a linear softmax model: mean over samples of p (1 - p) x^2 per row."""
        entry = catalog.entry("model", "mlp")
        model = entry.make(entry.settings(hidden=()), (WIDTH,), ROWS)
        params, batch = params_of(model), samples()
        batch = batch._replace(mask=torch.ones_like(batch.mask))
        p = model.forward(params, {}, batch.inputs).logits.softmax(-1)
        closed = torch.einsum("nc,ni->ci", p * (1 - p), batch.inputs**2) / COUNT

        assert torch.allclose(importance(model, params, REQUESTS["exact"], batch)["head.weight"], closed, rtol=1e-10)


@pytest.fixture
def asked(monkeypatch):
    """Return a list that gets the samples of every importance that the end of a task asks for."""
    seen = []

    def noting(*given, **sizes):
        seen.append(given[-1])
        return importance(*given, **sizes)

    monkeypatch.setattr(closing, "importance", noting)
    return seen


class TestTaskEnd:
    """What importances are a mean over when a task of 33 samples ends."""

    def ended(self, make, **sections):
        """Return the setup of a run, and its member as the end of its second task leaves it."""
        run = make.run(**sections)
        setup = make.setup([run])
        return setup, closing.end_of_task(setup, setup.stages[1], run, initial_members(setup)[0])

    @pytest.mark.parametrize(("method", "setting"), [("ewc", "fisher_samples"), ("mas", "samples")])
    @pytest.mark.parametrize("wanted", [10, 1024])
    def test_takes_samples_of_the_task_without_replacement(self, make, asked, method, setting, wanted):
        """As many as are asked for, or all where there are fewer: each once, none held out and none of another task."""
        setup, _ = self.ended(make, method=method, settings={setting: wanted})
        [found] = asked
        index = (found.inputs[:, None] == setup.stream.train_inputs).all(-1).nonzero()[:, 1].tolist()

        assert len(set(index)) == len(found.row) == min(wanted, 33)
        assert set(index) <= set(setup.stream.tasks[1].train.tolist())

    @pytest.mark.parametrize("method", ["ewc", "mas"])
    def test_does_not_depend_on_the_batches_of_training(self, make, method):
        """Trained by one sample or by 64, a member has one importance, bit by bit."""
        ends = [self.ended(make, method=method, train=Train(epochs=1, batch=size))[1] for size in (1, 64)]
        one, other = (member.strategy.importance for member in ends)

        assert all(torch.equal(one[name], value) for name, value in other.items())
        assert any(value.any() for value in other.values())
