"""The draws of a step depend on seed and step alone, whatever the group and wherever training began."""

import numpy as np
import pytest
import torch

from contilab.engine.draws import packed
from contilab.engine.setup import draws_of, initial_memory
from contilab.spec.sections import Memory, Train


def drawing(make, seeds, **sections):
    """Return setup and draws of er on the small stream."""
    setup = make.setup([make.run(seed, "er", **sections) for seed in seeds])
    return setup, draws_of(setup)


def all_steps(setup, draws, stage, limit):
    """Return the draws of all steps, one list per kind, each [E, ...]; memory is empty when the stage begins."""
    found, step, memory = [], 0, initial_memory(setup)
    while step < stage.schedule.steps:
        chunk = stage.schedule.chunk(step, limit)
        draw = draws.chunk(stage, chunk, memory)
        replay = draw.replay["replay"]
        found += zip(draw.current.tolist(), replay.samples.tolist(), replay.weight.tolist(), strict=True)
        step += chunk.count
    return found


class TestDraws:
    """What chance decides in a step."""

    @pytest.mark.parametrize("insert", ["first_epoch", "every_epoch"])
    def test_are_the_same_in_chunks_of_any_length(self, make, insert):
        """Step by step or in long chunks, the draws of every step are equal."""
        setup, draws = drawing(make, (0, 1), memory=Memory(total=10, batch=4, insert=insert))
        stage = setup.stages[1]

        assert all_steps(setup, draws, stage, 1) == all_steps(setup, draws, stage, 64)

    def test_are_the_same_from_any_step_on(self, make):
        """Draws made anew from step 3 on, with the memory of that step, are those of an uninterrupted stage."""
        setup, draws = drawing(make, (0, 1))
        again = draws_of(setup)
        stage, memory = setup.stages[2], initial_memory(setup)
        for step in range(3):
            draws.chunk(stage, stage.schedule.chunk(step, 1), memory)
        other = memory.copy()
        one, two = (own.chunk(stage, stage.schedule.chunk(3, 64), held) for own, held in ((draws, memory), (again, other)))

        assert torch.equal(one.current, two.current)
        assert torch.equal(one.replay["replay"].samples, two.replay["replay"].samples)

    def test_do_not_depend_on_the_other_members(self, make):
        """Seed 1 draws the same alone and between others."""
        setup, alone = drawing(make, (1,))
        _, between = drawing(make, (7, 1, 2))
        stage, chunk = setup.stages[1], setup.stages[1].schedule.chunk(0, 8)
        one = alone.chunk(stage, chunk, initial_memory(setup))
        many = between.chunk(stage, chunk, initial_memory(make.setup([make.run(seed, "er") for seed in (7, 1, 2)])))

        assert torch.equal(one.current[:, 0], many.current[:, 1])
        assert torch.equal(one.replay["replay"].samples[:, 0], many.replay["replay"].samples[:, 1])

    def test_differ_between_seeds(self, make):
        """Two seeds see other batches."""
        setup, draws = drawing(make, (0, 1))
        current = draws.chunk(setup.stages[0], setup.stages[0].schedule.chunk(0, 1), initial_memory(setup)).current[0]

        assert not torch.equal(current[0], current[1])

    def test_epochs_have_orders_of_their_own(self, make):
        """The second epoch of a task is not in the order of the first."""
        setup, draws = drawing(make, (0,))
        stage = setup.stages[0]
        steps = [step for step, *_ in all_steps(setup, draws, stage, 1)]
        first, second = np.concatenate(steps[:3], axis=1), np.concatenate(steps[3:], axis=1)

        assert sorted(first[0]) == sorted(second[0])
        assert first.tolist() != second.tolist()

    @pytest.mark.parametrize(("insert", "offers"), [("first_epoch", 1), ("every_epoch", 3), ("task_end", 0)])
    def test_offer_each_sample_as_often_as_told(self, make, insert, offers):
        """Over three epochs memory is offered the 40 samples of the task once, in each epoch, or not before its end."""
        setup, draws = drawing(make, (0,), train=Train(epochs=3, batch=16), memory=Memory(total=5, batch=4, insert=insert))
        memory, stage = initial_memory(setup), setup.stages[0]
        for step in range(stage.schedule.steps):
            draws.chunk(stage, stage.schedule.chunk(step, 1), memory)

        assert memory.offered.sum() == 40 * offers

    def test_count_what_is_replayed(self, make):
        """The samples replayed are those of weight 1."""
        setup, draws = drawing(make, (0, 1))
        memory, stage = initial_memory(setup), setup.stages[0]
        drawn = [draws.chunk(stage, stage.schedule.chunk(step, 1), memory).replay["replay"] for step in range(3)]

        assert memory.replayed.tolist() == [int(sum(replay.weight[:, member].sum() for replay in drawn)) for member in (0, 1)]

    def test_replay_nothing_in_the_step_in_which_it_arrives(self, make):
        """While a memory of 10 fills and is overwritten by fours, each replayed sample came in an earlier step."""
        setup, draws = drawing(make, (0, 1), train=Train(epochs=1, batch=4), memory=Memory(total=10, batch=4))
        steps = all_steps(setup, draws, setup.stages[1], 64)
        arrived, replayed, early = [set(), set()], 0, []
        for step, parts in enumerate(steps):
            for member, (current, samples, weight) in enumerate(zip(*parts, strict=True)):
                shown = {sample for sample, counts in zip(samples, weight, strict=True) if counts}
                early += [(step, member, sample) for sample in shown - arrived[member]]
                replayed += len(shown)
                arrived[member].update(current)

        assert early == []
        assert replayed == 2 * 4 * (len(steps) - 1)

    def test_labels_of_derpp_are_a_second_independent_draw(self, make):
        """Pairs of slots, one of each draw, are even over 10 x 10: chi-square of 99 below its 99.9 % point.

        One draw for both would fill the diagonal alone, two that avoid each other would leave it empty.
        """
        sections = {"train": Train(epochs=4, batch=1), "memory": Memory(total=10, batch=1)}
        setup = make.setup([make.run(seed, "derpp", **sections) for seed in range(40)])
        draws, memory, stage, counts, step = draws_of(setup), initial_memory(setup), setup.stages[0], np.zeros(100), 0
        while step < stage.schedule.steps:
            chunk = stage.schedule.chunk(step, 64)
            first, second = (replay.slots[0] for replay in draws.chunk(stage, chunk, memory).replay.values())
            if chunk.epoch > 0:  # from then on memory stands still, with all its slots taken
                counts += np.bincount((10 * first + second).flatten().numpy(), minlength=100)
            step += chunk.count

        assert counts.sum() == 40 * 120
        assert ((counts - 48) ** 2 / 48).sum() < 148.2


class TestPacked:
    """Draws of a piece of a chunk."""

    @pytest.mark.parametrize(("steps", "members", "batch"), [(1, 2, 1), (1, 1, 3), (5, 1, 3), (2, 2, 1), (1, 1, 1)])
    def test_strides_follow_from_the_shape(self, steps, members, batch):
        """However many steps the whole chunk has; values stay."""
        whole = torch.arange(members * 64 * batch).view(members, 64, batch).transpose(0, 1)  # [S, E, B]
        piece = whole[:steps]

        assert packed(piece).stride() == torch.empty(piece.shape).stride()
        assert torch.equal(packed(piece), piece)
