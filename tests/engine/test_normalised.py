"""Inputs that are stored in 8 bits train and test like the numbers that they stand for."""

import numpy as np
import pytest
import torch

from contilab.data.normalisation import Normalisation
from contilab.engine.choice.form import Form
from contilab.engine.choice.pace import Pace
from contilab.engine.environment import TABLE

CONSTANTS = Normalisation(shift=(10.0,), scale=(50.0,))


@pytest.fixture
def stored(make):
    """A stream of 8-bit inputs, and the same as floats."""
    stream = make.stream()
    pools = {name: (60 + 20 * getattr(stream, name)).clamp(0, 255).byte() for name in ("train_inputs", "test_inputs")}
    floats = {name: CONSTANTS.apply(pool) for name, pool in pools.items()}
    return stream._replace(**pools, normalisation=CONSTANTS), stream._replace(**floats)


@pytest.mark.parametrize("way", ["loop", "vmap", "batched"])
@pytest.mark.parametrize("method", ["derpp", "ewc", "lwf", "icarl", "agem"])
class TestNormalised:
    """Training, replay, importances, teachers, exemplars and exams."""

    def test_equals_training_on_the_numbers(self, make, stored, method, way):
        """Weights and answers are bit by bit those of the same run on float inputs."""
        runs = [make.run(seed, method) for seed in (0, 1)]
        small, large = (make.facts(make.outcomes(runs, way, stream=stream)) for stream in stored)

        for one, other in zip(small, large, strict=True):
            assert one["parameters"] == other["parameters"]
            assert one["tensors"] == other["tensors"]


def test_inputs_stay_small(make, stored):
    """The pools on the device are the stored bytes."""
    setup = make.setup([make.run()], stream=stored[0])

    assert setup.stream.train_inputs.dtype == torch.uint8
    assert np.array_equal(setup.stream.train_inputs.numpy(), stored[0].train_inputs.numpy())


@pytest.mark.parametrize("way", TABLE.offered_on("cpu"))
def test_bf16(make, stored, way):
    """Stored bytes are trained on in bf16 as the numbers that they stand for are: weights agree bit by bit, and are fp32."""
    weights = []
    for stream in stored:
        pace = Pace(make.setup([make.run(seed) for seed in (0, 1)], stream=stream), TABLE.maker(Form(way, "bf16")))
        pace.lap(2)
        weights.append([member.params for member in pace._execution.scatter(pace._ensemble)])

    for one, other in zip(*weights, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)
        assert all(value.dtype == torch.float32 for value in one.values())
