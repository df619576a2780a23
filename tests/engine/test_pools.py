"""Data that do not fit onto the device: where they lie, and that nothing else depends on it."""

import pytest
import torch

from contilab.engine import pools
from contilab.engine.environment import EXECUTIONS
from contilab.engine.pools import carrying, gathered, place_of, pool_bytes
from contilab.engine.setup import draws_of, initial_memory
from contilab.engine.train import train_group
from contilab.engine.watch import silent
from contilab.hardware.device import Choice
from contilab.hardware.memory import MIB, Free
from contilab.spec.sections import Memory, Train

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")


def left(count):
    """Return a device that has *count* MiB left."""
    return lambda device: Free(count * MIB, f"{count} MiB left on {device}")


def on_host(setup):
    """Return *setup* with its inputs on the host."""
    return setup._replace(place=Choice("host", "asked for"))


class TestPlace:
    """The decision, without a device."""

    @pytest.mark.parametrize("asked", ["device", "host"])
    def test_what_is_asked_for_is_done(self, asked):
        """Whatever memory says."""
        assert place_of(asked, 10 * MIB, GPU, free_on=left(1)) == Choice(asked, "asked for")

    def test_a_processor_has_one_memory(self):
        """There the data lie where they are trained on, and memory is not asked for."""
        assert place_of("auto", 2**60, CPU, free_on=left(1)).value == "device"

    @pytest.mark.parametrize(("needed", "place"), [(50, "device"), (51, "host")])
    def test_data_fill_half_of_a_device_at_most(self, needed, place):
        """Larger ones stay on the host, and the reason has the numbers."""
        found = place_of("auto", needed * MIB, GPU, free_on=left(100))

        assert found == Choice(place, f"the data take {needed} MiB, 50% of 100 MiB left on cuda:0 may be data")

    def test_bytes_are_those_on_the_device(self, make):
        """Floats are counted in the precision that trains: two pools of 132 and 60 inputs of 12 numbers."""
        stream = make.stream()

        assert pool_bytes(stream, torch.float64) == 8 * 12 * (132 + 60)


class TestCarrying:
    """Training on a pool that is made for a few steps."""

    @pytest.mark.slow
    @pytest.mark.parametrize("way", EXECUTIONS)
    @pytest.mark.parametrize("method", ["er", "derpp", "gem", "ewc", "icarl"])
    @pytest.mark.parametrize("most", [1, 3 * 2 * 24 * 48], ids=["one step", "some steps"])  # 2 members, 24 samples of 48 bytes
    def test_numbers_are_the_same(self, make, method, way, most, monkeypatch):
        """A whole run has the same bits with its data on the host, brought step by step or a few at a time."""
        runs = [make.run(seed, method) for seed in range(2)]
        plain = train_group(make.setup(runs), EXECUTIONS[way], silent())
        monkeypatch.setattr(pools, "CARRIED_BYTES", most)
        brought = train_group(on_host(make.setup(runs)), carrying(EXECUTIONS[way]), silent())

        assert make.facts(brought) == make.facts(plain)

    def test_augmented_pictures_of_bytes(self, make):
        """Views and stored bytes come along."""
        stream = make.stream((18, 18), test=3, shape=(1, 8, 8))
        runs = [make.run(0, "er", model=("convnet", {}), train=Train(epochs=1, batch=4, augment="crop_flip"))]
        plain, brought = (
            train_group(setup, carrying(EXECUTIONS["loop"]), silent())
            for setup in (make.setup(runs, stream), on_host(make.setup(runs, stream)))
        )

        assert make.facts(brought) == make.facts(plain)

    def test_only_what_is_needed_is_brought(self, make, monkeypatch):
        """The pool of a step holds each of its samples once, and no other."""
        setup = on_host(make.setup([make.run(seed, "er", memory=Memory(total=20, batch=8)) for seed in range(2)]))
        stage = setup.stages[0]
        draws = draws_of(setup).chunk(stage, stage.schedule.chunk(1, 1), initial_memory(setup))
        lesson, found = pools.carried(setup.lesson(stage), draws)
        wanted = torch.cat([draws.current.flatten(), draws.replay["replay"].samples.flatten()])
        places = torch.cat([found.current.flatten(), found.replay["replay"].samples.flatten()])

        assert len(lesson.inputs) == len(wanted.unique())
        assert torch.equal(lesson.inputs[places], setup.stream.train_inputs[wanted])
        assert torch.equal(lesson.rows[places], setup.stream.train_rows[wanted])
        assert not lesson.is_on_host

    def test_gathering_on_one_device_is_an_index(self):
        """Nothing is copied twice there."""
        inputs, samples = torch.arange(12.0).reshape(6, 2), torch.tensor([4, 0, 4])

        assert torch.equal(gathered(inputs, samples), inputs[samples])
