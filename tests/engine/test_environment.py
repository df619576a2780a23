"""What the engine chooses, and the reason it gives."""

import dataclasses

import pytest

from contilab.engine.environment import choose, environment
from contilab.errors import DeviceError
from contilab.spec.sections import Benchmark, Execution, Numerics


def choices_of(make, members=2, asked="auto", **changes):
    """Return the choices for a group whose plugins are changed by *changes*."""
    runs = [make.run(seed) for seed in range(members)]
    learner = make.setup(runs).learner
    model = learner.model._replace(is_convolutional=changes.get("is_convolutional", False))
    strategy = learner.strategy._replace(is_vmappable=changes.get("is_vmappable", True))
    return choose(runs, Execution(execution=asked, device="cpu"), learner._replace(model=model, strategy=strategy))


class TestChoose:
    """Which execution trains."""

    @pytest.mark.parametrize(
        ("members", "asked", "is_convolutional", "expected"),
        [
            (1, "auto", False, "loop"),
            (2, "auto", False, "vmap"),
            (2, "auto", True, "loop"),
            (2, "loop", False, "loop"),
            (1, "vmap", False, "vmap"),
        ],
    )
    def test_auto_knows_when_vmap_pays(self, make, members, asked, is_convolutional, expected):
        """Several members of a model of linear layers: vmap; one member or a convolutional net: loop; else as asked."""
        chosen = choices_of(make, members, asked, is_convolutional=is_convolutional)

        assert chosen.execution.value == expected
        assert chosen.execution.reason
        assert not chosen.vmap_fallback

    @pytest.mark.parametrize("asked", ["auto", "vmap"])
    def test_a_strategy_that_cannot_be_vmapped_falls_back(self, make, asked):
        """It trains member by member, and the fallback is recorded with the strategy's name."""
        chosen = choices_of(make, asked=asked, is_vmappable=False)

        assert chosen.execution.value == "loop"
        assert chosen.vmap_fallback
        assert "naive" in chosen.execution.reason

    def test_a_device_that_is_not_there_is_refused(self, make):
        """Asking for a far CUDA device raises before anything is trained."""
        runs = [make.run()]
        with pytest.raises(DeviceError):
            choose(runs, Execution(device="cuda:63"), make.setup(runs).learner)


class TestEnvironment:
    """What env.json holds of it."""

    def test_names_every_choice_with_its_reason(self, make):
        """Device, execution, precision and compilation have value and reason; no data are loaded for it."""
        run = make.run()
        run = dataclasses.replace(
            run, benchmark=Benchmark(name="synthetic", scenario="task"), engine=Numerics(precision="fp32")
        )
        found = environment([run], Execution(device="cpu"))

        assert all(found[name].keys() == {"value", "reason"} for name in ("device", "execution", "precision", "compile"))
        assert found["precision"] == {"value": "fp32", "reason": "asked for"}
        assert found["members"] == 1
