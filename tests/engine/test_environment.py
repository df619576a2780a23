"""What the engine chooses, and the reason it gives."""

import dataclasses

import pytest
import torch

from contilab import catalog
from contilab.engine.choice.pace import Pace
from contilab.engine.environment import choose, environment, shape_of
from contilab.engine.setup import prepare
from contilab.errors import DeviceError
from contilab.hardware.device import Choice
from contilab.hardware.profile import Answer, Profiles, Rate
from contilab.spec.sections import Benchmark, Execution, Numerics, Train


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
            (2, "auto", True, "loop"),
            (2, "loop", False, "loop"),
            (2, "vmap", False, "vmap"),
            (1, "vmap", False, "vmap"),
        ],
    )
    def test_rule_of_thumb(self, make, members, asked, is_convolutional, expected):
        """Where nothing was measured: one member or a convolutional net: loop; else as asked."""
        chosen = choices_of(make, members, asked, is_convolutional=is_convolutional)

        assert chosen.execution.value == expected
        assert chosen.execution.reason
        assert not chosen.vmap_fallback

    def test_by_profile(self, make):
        """What bench measured on this machine decides on execution and precision, and env.json names the measurement."""
        runs = [make.run(seed) for seed in range(3)]
        learner = make.setup(runs).learner
        threads = torch.get_num_threads()
        rates = (Rate("loop", "fp32", "off", threads, 1, 900.0, 0.0), Rate("vmap", "fp32", "off", threads, 1, 100.0, 0.0))
        profiles = Profiles()
        profiles.keep(shape_of(runs[0], learner, 3, "cpu"), Answer(rates, "bench", "2026-01-01T00:00:00+00:00", 0.0))
        chosen = choose(runs, Execution(device="cpu"), learner, profiles=profiles)

        assert (chosen.execution.value, chosen.precision.value, chosen.compile.value) == ("loop", "fp32", "off")
        assert "measured by bench" in chosen.execution.reason

    def test_measured_for_a_long_group(self, make, monkeypatch):
        """A group that trains long is measured, once and on itself; what was found is chosen from then on."""
        monkeypatch.setattr("contilab.engine.choice.trial.MOST_SECONDS", 0.11)
        runs = [make.run(seed, train=Train(steps=1_000_000, batch=16)) for seed in range(2)]
        setup = make.setup(runs)
        profiles = Profiles()
        first = choose(runs, Execution(device="cpu"), setup.learner, profiles=profiles, setup=setup)
        again = choose(runs, Execution(device="cpu"), setup.learner, profiles=profiles)

        assert "measured by auto" in first.execution.reason
        assert first == again
        assert choose(runs, Execution(device="cpu"), setup.learner).execution.reason.startswith("not measured")

    def test_makes_what_was_chosen(self, make):
        """The choices build an execution that trains."""
        setup = make.setup([make.run()])
        chosen = choose(setup.runs, Execution(device="cpu"), setup.learner)

        assert Pace(setup, chosen.make).lap(1).samples == 16

    def test_bf16_on_a_processor_without_it(self, make, monkeypatch):
        """It is had as asked for, and a warning names the instruction sets that are missing."""
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_f": True}, raising=False)
        runs = [make.run(engine=Numerics(precision="bf16"))]
        chosen = choose(runs, Execution(device="cpu"), make.setup(runs).learner)

        assert chosen.precision == Choice("bf16", "asked for")
        assert "avx512_bf16 and amx_bf16" in chosen.warnings[0]

    @pytest.mark.parametrize("asked", ["auto", "vmap"])
    def test_a_strategy_that_cannot_be_vmapped_falls_back(self, make, asked):
        """It trains member by member, and the fallback is recorded with the strategy's name."""
        chosen = choices_of(make, asked=asked, is_vmappable=False)

        assert chosen.execution.value == "loop"
        assert chosen.vmap_fallback
        assert "naive" in chosen.execution.reason

    def test_a_gpu_is_told_how_to_compute_before_anything_lies_there(self, make, monkeypatch):
        """Whatever builds a group on it: runners, bench and profile."""

        def told(device):
            raise LookupError(device)

        monkeypatch.setattr("contilab.engine.setup.use_device", told)
        setup = make.setup([make.run()])
        with pytest.raises(LookupError, match="cuda:0"):
            prepare(setup.runs, setup.learner, setup.stream, device=torch.device("cuda:0"))

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
        benchmark = Benchmark(name="synthetic", scenario="task")
        data = catalog.entry("benchmark", "synthetic").make(benchmark).data
        run = dataclasses.replace(run, benchmark=benchmark, data=data, engine=Numerics(precision="fp32"))
        found = environment([run], Execution(device="cpu"))

        assert all(found[name].keys() == {"value", "reason"} for name in ("device", "execution", "precision", "compile"))
        assert found["precision"] == {"value": "fp32", "reason": "asked for"}
        assert found["members"] == 1
