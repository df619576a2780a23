"""Claims about runs and their addresses."""

from dataclasses import dataclass, replace
from typing import Annotated

import pytest

from contilab.spec import run as run_module
from contilab.spec.fields import PER_MEMBER, Doc, markers, per_member
from contilab.spec.run import Run, run_from
from contilab.spec.sections import Benchmark, Data, Eval, Memory, Numerics, Plugin, Train


@pytest.fixture
def run():
    """A run with replay memory."""
    return Run(
        benchmark=Benchmark(name="split_digits", scenario="class"),
        data=Data(name="digits", digest="0" * 64),
        model=Plugin(name="mlp", settings={"hidden": [400, 400]}),
        optim=Plugin(name="sgd", settings={"lr": 0.1, "momentum": 0.9, "nesterov": False}),
        train=Train(epochs=1),
        method=Plugin(name="er"),
        memory=Memory(total=500, batch=32),
        eval=Eval(),
        engine=Numerics(),
        numerics={"engine": "engine/1", "method": "er/1"},
        seed=3,
    )


class TestRun:
    """A run is its configuration and its seed."""

    def test_round_trip(self, run):
        """A run read from its specification is the same run."""
        assert run_from(run.spec) == run
        assert run_from(run.spec).rid == run.rid

    def test_round_trip_without_memory(self, run):
        """So is one without replay memory, which says nothing about it."""
        bare = replace(run, memory=None)

        assert "memory" not in bare.config
        assert run_from(bare.spec) == bare

    @pytest.mark.parametrize(
        "change",
        [
            {"seed": 4},
            {"train": Train(steps=1)},
            {"train": Train(epochs=1, batch=32)},
            {"memory": None},
            {"method": Plugin(name="er", settings={"strength": 1.0})},
            {"benchmark": Benchmark(name="split_digits", scenario="task")},
            {"data": Data(name="digits", digest="1" * 64)},
            {"engine": Numerics(precision="fp32")},
            {"numerics": {"engine": "engine/2", "method": "er/1"}},
        ],
        ids=str,
    )
    def test_what_decides_numbers_is_in_the_address(self, run, change):
        """Each value that may change the numbers changes the address."""
        assert replace(run, **change).rid != run.rid

    def test_defaults_are_written_out(self, run):
        """A default and the same value given are one run."""
        assert replace(run, train=Train(epochs=1, batch=64, augment="none")).rid == run.rid

    def test_order_of_settings(self, run):
        """The order of a plugin's settings does not matter."""
        backwards = Plugin(name="sgd", settings=dict(reversed(run.optim.settings.items())))

        assert replace(run, optim=backwards).rid == run.rid

    def test_integer_and_float_differ(self, run):
        """A setting of 1 and one of 1.0 are different runs: types are not lost."""
        rids = {replace(run, method=Plugin(name="er", settings={"x": value})).rid for value in (1, 1.0, True, "1")}

        assert len(rids) == 4

    def test_later_setting_with_its_default(self, run, monkeypatch):
        """A setting added after the first release is left out while it has its default, so old addresses survive."""
        monkeypatch.setattr(run_module, "ADDED_LATER", frozenset({("train", "augment")}))
        config = replace(run).config

        assert "augment" not in config["train"]
        assert run_from(replace(run).spec) == run

    def test_another_scheme(self, run):
        """A specification of another scheme is refused with both names."""
        with pytest.raises(ValueError, match=r"'contilab.run/9', this version reads 'contilab.run/1'"):
            run_from({**run.spec, "v": "contilab.run/9"})

    @pytest.mark.parametrize("section", ["train", "benchmark"])
    def test_unknown_key(self, run, section):
        """A key that this version does not know is refused, not dropped."""
        config = {**run.config, section: {**run.config[section], "new": 1}}

        with pytest.raises(TypeError, match="new"):
            run_from({**run.spec, "config": config})

    def test_missing_section(self, run):
        """A specification without its method is refused."""
        config = {name: table for name, table in run.config.items() if name != "method"}

        with pytest.raises(KeyError, match="method"):
            run_from({**run.spec, "config": config})


class TestFields:
    """Fields say what they mean and whether members may differ in them."""

    def test_annotations(self):
        """The annotations of a field are found, and the fields taken per member by name."""

        @dataclass(frozen=True, kw_only=True)
        class Settings:
            """Settings of a plugin."""

            strength: Annotated[float, PER_MEMBER, Doc("weight of the penalty")] = 1.0
            hidden: int = 1

        assert markers(Settings, "strength") == (PER_MEMBER, Doc("weight of the penalty"))
        assert markers(Settings, "hidden") == ()
        assert per_member(Settings) == ("strength",)
