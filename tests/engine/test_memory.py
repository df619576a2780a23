"""Replay memory: reservoir sampling and draws without replacement."""

import numpy as np
import pytest

from contilab.engine import streams
from contilab.engine.memory.entries import no_entries
from contilab.engine.memory.memories import Memories, Pool
from contilab.engine.memory.plan import MemoryPlan
from contilab.engine.memory.replay import reference_slots, replay_slots


def memories(capacity, rows, tasks=None, *, policy="reservoir", members=1):
    """Return empty memories for a pool whose samples have these *rows* and *tasks*."""
    rows = np.asarray(rows)
    tasks = np.zeros_like(rows) if tasks is None else np.asarray(tasks)
    classes = int(rows.max()) + 1
    plan = MemoryPlan(capacity, batch=4, names=(), policy=policy, tasks=int(tasks.max()) + 1, rows=classes)
    return Memories(plan, Pool(rows, tasks), [no_entries(capacity, classes, filler=0)] * members)


def filled(memory, batches, seeds=range(1)):
    """Offer batches of these sizes to the memories of *seeds*, samples in order, and return them."""
    offered = 0
    for number, size in enumerate(batches):
        uniform = np.stack([streams.uniforms(seed, "reservoir", task=0, index=number, count=size) for seed in seeds])
        memory.take_in(np.broadcast_to(np.arange(offered, offered + size), (len(seeds), size)), uniform)
        offered += size
    return memory


def held(memory, member=0):
    """Return the samples that a member holds, slot after slot."""
    return memory.samples[member, : memory.occupied[member]].tolist()


class TestReservoir:
    """Which samples are kept."""

    def test_every_position_of_the_stream_is_kept_equally_often(self):
        """Over 1000 seeds each of 200 samples is held 50 times in 1000 (M = 10): chi-square of 199 below its 99.9 % point."""
        memory = filled(memories(10, np.zeros(200, int), members=1000), [7] * 28 + [4], seeds=range(1000))
        counts = np.bincount(memory.samples[:, :10].flatten(), minlength=200)

        assert ((counts - 50) ** 2 / (50 * (1 - 10 / 200))).sum() < 266.4

    def test_five_hundred_of_twelve_thousand(self):
        """Each hundredth of the stream, early or late, holds 5 entries on average: chi-square of 99 below its 99.9 % point.

        Over 40 seeds a hundredth is held 200 times; the variance of that count is 200 (1 - 500 / 12,000).
        """
        memory = filled(memories(500, np.zeros(12_000, int), members=40), [600] * 20, seeds=range(40))
        counts = np.bincount(memory.samples[:, :500].flatten() // 120, minlength=100)

        assert memory.occupied.tolist() == [500] * 40
        assert ((counts - 200) ** 2 / (200 * (1 - 500 / 12_000))).sum() < 148.2

    def test_counter_of_offers_is_not_the_occupancy(self):
        """A memory that forgot how many were offered would go on as if the next sample were the eleventh: it is the 101st."""
        memory = filled(memories(10, np.zeros(200, int)), [100])
        again = memory.copy()
        uniform = np.full((1, 1, 1), 0.095)  # slot 9 of 101, slot 1 of 11

        assert (int(again.occupied[0]), int(again.offered.sum())) == (10, 100)
        assert again.slots_for(np.array([[[100]]]), uniform).tolist() == [[[9]]]

    @pytest.mark.parametrize("batches", [[3], [3, 7], [3, 7, 7], [3] + [10] * 20])
    def test_occupancy_is_the_smaller_of_capacity_and_offers(self, batches):
        """Tasks of 3, then more samples: 10 slots hold min(10, offered) distinct samples, the rest is empty."""
        kept = held(filled(memories(10, np.zeros(300, int)), batches))

        assert len(kept) == min(10, sum(batches))
        assert len(set(kept)) == len(kept)

    def test_memory_larger_than_the_data_keeps_everything_in_order(self):
        """With more slots than samples the n-th sample lies in slot n."""
        assert held(filled(memories(50, np.zeros(24, int)), [8, 8, 8])) == list(range(24))

    def test_later_sample_of_a_batch_wins_its_slot(self):
        """Three samples that draw slot 0 of a full memory: the last one gets it, the others go to the bin (slot 2)."""
        memory = filled(memories(2, np.zeros(5, int)), [2])
        slots = memory.slots_for(np.array([[[2, 3, 4]]]), np.zeros((1, 1, 3)))

        assert slots.tolist() == [[[2, 2, 0]]]

    @pytest.mark.parametrize("policy", ["reservoir", "class_balanced", "ring", "ring_class"])
    def test_slots_of_a_step_are_distinct_but_for_the_bin(self, policy):
        """Whatever is drawn, no slot is written twice in a step, so every device writes the same."""
        generator = np.random.default_rng(0)
        memory = memories(20, generator.integers(0, 4, 6400), policy=policy, members=4)
        slots = memory.slots_for(
            np.broadcast_to(np.arange(6400).reshape(200, 32), (4, 200, 32)), generator.random((4, 200, 32))
        )

        assert all(len(set(kept)) == len(kept) for row in slots.reshape(-1, 32) for kept in [row[row < 20].tolist()])


class TestPolicies:
    """What the other policies keep."""

    @pytest.mark.parametrize("policy", ["reservoir", "class_balanced", "ring", "ring_class"])
    @pytest.mark.parametrize("batch", [1, 7])
    def test_one_call_equals_many(self, policy, batch):
        """Steps worked out together give the memory of steps worked out one by one."""
        generator = np.random.default_rng(3)
        rows = generator.integers(0, 5, 140)
        samples, uniform = np.arange(140).reshape(1, -1, batch), generator.random((1, 140 // batch, batch))
        together = memories(20, rows, rows // 2, policy=policy)
        slots = together.slots_for(samples, uniform)
        numbers = together.numbers(*samples.shape[1:])
        before = together.occupied_before(slots)
        alone = memories(20, rows, rows // 2, policy=policy)
        counted = []
        for step in range(samples.shape[1]):
            together.write(slots[:, step], samples[:, step], numbers[:, step])
            counted.append(int(alone.occupied[0]))
            alone.take_in(samples[:, step], uniform[:, step])

        assert held(together) == held(alone)
        assert before[0].tolist() == counted

    @pytest.mark.parametrize("policy", ["reservoir", "class_balanced", "ring", "ring_class"])
    def test_entries_fill_the_slots_without_holes(self, policy):
        """Occupied slots are the first ones, and each holds another sample."""
        rows = np.random.default_rng(5).integers(0, 5, 90)
        memory = filled(memories(20, rows, rows // 2, policy=policy), [9] * 10)

        assert (memory.number[0, : len(held(memory))] > 0).all()
        assert len(set(held(memory))) == len(held(memory))

    def test_balanced_classes_differ_by_at_most_one(self):
        """Three classes of 10, 50 and 30 samples share 20 slots as 6 or 7 each."""
        rows = np.array([0] * 10 + [1] * 50 + [2] * 30)
        memory = filled(memories(20, rows, policy="class_balanced"), [10] * 9)
        counts = np.bincount(rows[held(memory)])

        assert counts.sum() == 20
        assert counts.max() - counts.min() <= 1

    def test_balanced_memory_keeps_all_of_a_rare_class(self):
        """A class of two samples keeps both, whatever else arrives."""
        rows = np.array([0] * 30 + [1] * 2 + [2] * 30)
        memory = filled(memories(12, rows, policy="class_balanced"), [31, 31])

        assert {30, 31} <= set(held(memory))

    def test_balanced_class_is_a_uniform_sample_of_it(self):
        """Over 1000 seeds each of 40 samples of one class is held 250 times (M = 10): chi-square of 39 below 72.1."""
        memory = filled(memories(10, np.zeros(40, int), policy="class_balanced", members=1000), [8] * 5, seeds=range(1000))
        counts = np.bincount(memory.samples[:, :10].flatten(), minlength=40)

        assert ((counts - 250) ** 2 / (250 * 0.75)).sum() < 72.1

    def test_ring_keeps_the_last_of_each_task(self):
        """Two tasks of 10 share 6 slots: the last three of each."""
        memory = filled(memories(6, np.zeros(20, int), [0] * 10 + [1] * 10, policy="ring"), [4, 4, 4, 4, 4])

        assert sorted(held(memory)) == [7, 8, 9, 17, 18, 19]

    def test_ring_keeps_the_last_of_each_class(self):
        """Two classes that alternate share 4 slots: the last two of each."""
        memory = filled(memories(4, np.arange(20) % 2, policy="ring_class"), [5] * 4)

        assert sorted(held(memory)) == [16, 17, 18, 19]

    def test_counts_every_offer(self):
        """The counter of offers goes on when memory is full."""
        memory = filled(memories(3, np.arange(20) % 2), [10, 10])

        assert memory.offered[0].tolist() == [10, 10]

    def test_does_not_depend_on_other_members(self):
        """The second of three members holds what it holds alone."""
        rows = np.random.default_rng(5).integers(0, 3, 90)
        alone = filled(memories(10, rows, policy="class_balanced"), [30] * 3, seeds=(7,))
        many = filled(memories(10, rows, policy="class_balanced", members=3), [30] * 3, seeds=(1, 7, 2))

        assert held(alone) == held(many, member=1)

    def test_replaced_content_is_in_order(self):
        """What a member is told to hold lies in the first slots, and others keep theirs."""
        memory = filled(memories(5, np.zeros(9, int), members=2), [9], seeds=range(2))
        other = held(memory, member=1)
        memory.replace(0, [8, 3])

        assert held(memory) == [8, 3]
        assert held(memory, member=1) == other


class TestReplay:
    """Which entries are replayed."""

    def test_is_without_replacement(self):
        """Eight of 20 entries are eight different ones, in each of many draws."""
        slots, counts = replay_slots(np.random.default_rng(0).random((2, 500, 8)), np.full((2, 500), 20))

        assert all(len(set(row)) == 8 for row in slots.reshape(-1, 8).tolist())
        assert counts.all()

    def test_is_uniform(self):
        """Over 20,000 draws of 4 of 10 each entry comes 8,000 times: chi-square of 9 below its 99.9 % point."""
        slots, _ = replay_slots(np.random.default_rng(1).random((1, 20_000, 4)), np.full((1, 20_000), 10))
        counts = np.bincount(slots.flatten(), minlength=10)

        assert ((counts - 8000) ** 2 / (8000 * 0.6)).sum() < 27.9

    def test_takes_all_entries_where_there_are_fewer(self):
        """Three entries for a draw of five: all three count, the other two are padding."""
        slots, counts = replay_slots(np.random.default_rng(0).random((1, 1, 5)), np.array([[3]]))

        assert slots[0, 0, :3].tolist() == [0, 1, 2]
        assert counts.tolist() == [[[True, True, True, False, False]]]


class TestReference:
    """Which entries of earlier tasks are drawn."""

    def test_only_eligible_slots_count(self):
        """Three of the four eligible slots are drawn, without repetition, in each of many draws."""
        eligible = np.array([True, False, True, True, False, True])
        uniform = np.random.default_rng(0).random((1, 300, 6))
        slots, counts = reference_slots(uniform, np.broadcast_to(eligible, (1, 300, 6)), 3)

        assert counts.all()
        assert all(len(set(row)) == 3 and set(row) <= {0, 2, 3, 5} for row in slots[0].tolist())

    def test_all_count_where_there_are_fewer(self):
        """One eligible slot for a draw of three: it counts, the other two are padding."""
        slots, counts = reference_slots(np.full((1, 1, 4), 0.5), np.array([[[False, False, True, False]]]), 3)

        assert slots[0, 0][counts[0, 0]].tolist() == [2]
        assert counts.sum() == 1
