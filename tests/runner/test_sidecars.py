"""What stands next to every result."""

import json
import tomllib

import pytest

from contilab.runner import sidecars
from contilab.runner.sidecars import config_toml, env_json, processor
from contilab.spec.run import Run
from contilab.spec.sections import Benchmark, Data, Eval, Memory, Numerics, Plugin, Train

RUN = Run(
    benchmark=Benchmark(name="synthetic", scenario="class"),
    data=Data(name="synthetic", digest="0" * 64),
    model=Plugin(name="mlp", settings={"hidden": [8]}),
    optim=Plugin(name="sgd", settings={"lr": 0.1}),
    train=Train(epochs=1),
    method=Plugin(name="er"),
    memory=Memory(total=10),
    eval=Eval(),
    engine=Numerics(),
    numerics={"engine": "engine/1"},
    seed=7,
)


class TestConfigToml:
    """The resolved run as TOML."""

    def test_is_complete(self):
        """Address, seed and all settings with defaults."""
        config = tomllib.loads(config_toml(RUN).decode())

        assert (config["rid"], config["seed"]) == (RUN.rid, 7)
        assert config["benchmark"]["tasks"] == 5
        assert config["model"] == {"name": "mlp", "hidden": [8]}
        assert config["memory"]["insert"] == "first_epoch"


class TestEnvJson:
    """The machine as JSON."""

    def test_is_complete(self):
        """Choices, versions, capabilities, limits and host."""
        found = json.loads(env_json({"threads": {"value": 1, "reason": "asked for"}}))

        assert {"threads", "versions", "capabilities", "cgroup", "host"} == found.keys()
        assert found["host"]["memory_bytes"] > 0


class TestProcessor:
    """What two attempts must have in common before all their bits must be equal."""

    @pytest.mark.parametrize(("device", "told"), [("cpu", "Xeon"), ("cuda:1", "Xeon with H200")])
    def test_names_the_gpu_that_trained(self, monkeypatch, device, told):
        """The model of the processor, and of the GPU if one was used: two of different models round differently."""
        capabilities = {"cpu": {"model": "Xeon"}, "cuda": [{"name": "A100"}, {"name": "H200"}]}
        monkeypatch.setattr(sidecars, "machine", lambda: {"capabilities": capabilities})

        assert processor(device) == told
