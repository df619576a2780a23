"""The draws of a step depend on seed and step alone, whatever the group and wherever training began."""

import numpy as np
import pytest
import torch

from contilab.engine.draws import Draws
from contilab.spec.sections import Memory, Train


def draws_of(make, seeds, **sections):
    """Return setup and draws of er on the small stream."""
    setup = make.setup([make.run(seed, "er", **sections) for seed in seeds])
    return setup, Draws(seeds, setup.plan, device=setup.device, dtype=setup.dtype)


def all_steps(setup, draws, stage, limit, first=0):
    """Return the draws of all steps from *first* on, one list per kind, each [E, ...]."""
    found, step = [], first
    while step < stage.schedule.steps:
        chunk = stage.schedule.chunk(step, limit)
        draw = draws.chunk(stage, chunk)
        replay = draw.replay["replay"]
        for place in range(chunk.count):
            kept = [kept[place].tolist() for kept in draw.keep]
            found.append((draw.current[place].tolist(), replay.slots[place].tolist(), replay.weight[place].tolist(), kept))
        step += chunk.count
    return found


class TestDraws:
    """What chance decides in a step."""

    @pytest.mark.parametrize("insert", ["first_epoch", "every_epoch"])
    def test_are_the_same_in_chunks_of_any_length(self, make, insert):
        """Step by step or in long chunks, the draws of every step are equal."""
        setup, draws = draws_of(make, (0, 1), memory=Memory(total=10, batch=4, insert=insert))
        stage = setup.stages[1]

        assert all_steps(setup, draws, stage, 1) == all_steps(setup, draws, stage, 64)

    def test_are_the_same_from_any_step_on(self, make):
        """Draws made anew from step 3 on are those of an uninterrupted stage."""
        setup, draws = draws_of(make, (0, 1))
        again = Draws((0, 1), setup.plan, device=setup.device, dtype=setup.dtype)
        stage = setup.stages[2]

        assert all_steps(setup, draws, stage, 64)[3:] == all_steps(setup, again, stage, 64, first=3)

    def test_do_not_depend_on_the_other_members(self, make):
        """Seed 1 draws the same alone and between others."""
        setup, alone = draws_of(make, (1,))
        _, between = draws_of(make, (7, 1, 2))
        stage, chunk = setup.stages[1], setup.stages[1].schedule.chunk(0, 8)
        one, many = alone.chunk(stage, chunk), between.chunk(stage, chunk)

        assert torch.equal(one.current[:, 0], many.current[:, 1])
        assert torch.equal(one.keep[0][:, 0], many.keep[0][:, 1])
        assert torch.equal(one.replay["replay"].slots[:, 0], many.replay["replay"].slots[:, 1])

    def test_differ_between_seeds(self, make):
        """Two seeds see other batches."""
        setup, draws = draws_of(make, (0, 1))
        current = draws.chunk(setup.stages[0], setup.stages[0].schedule.chunk(0, 1)).current[0]

        assert not torch.equal(current[0], current[1])

    def test_epochs_have_orders_of_their_own(self, make):
        """The second epoch of a task is not in the order of the first."""
        setup, draws = draws_of(make, (0,))
        stage = setup.stages[0]
        steps = [step for step, *_ in all_steps(setup, draws, stage, 1)]
        first, second = np.concatenate(steps[:3], axis=1), np.concatenate(steps[3:], axis=1)

        assert sorted(first[0]) == sorted(second[0])
        assert first.tolist() != second.tolist()

    def test_offer_each_sample_once_unless_told_otherwise(self, make):
        """With insert = first_epoch only the first epoch has slots to keep samples in."""
        setup, draws = draws_of(make, (0,), train=Train(epochs=3, batch=16))
        kept = [len(keep) for *_, keep in all_steps(setup, draws, setup.stages[0], 1)]

        assert kept == [1] * 3 + [0] * 6
