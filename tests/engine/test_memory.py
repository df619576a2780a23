"""Replay memory: reservoir sampling and draws without replacement."""

import numpy as np
import pytest
import torch

from contilab.engine import memory, streams


def filled(capacity, batches, seeds=range(1)):
    """Offer batches of these sizes, samples numbered in order, and return the memories [E, M] of all *seeds*."""
    held = torch.stack([memory.empty(capacity, filler=-1, device=torch.device("cpu")) for _ in seeds])
    offered = 0
    for number, size in enumerate(batches):
        uniform = np.stack([streams.uniforms(seed, "reservoir", task=0, index=number, count=size) for seed in seeds])
        slots = memory.reservoir_slots(uniform[:, None], np.array([offered]), capacity)[:, 0]
        index = torch.arange(offered, offered + size)
        held = torch.stack([memory.insert(one, torch.from_numpy(own), index) for one, own in zip(held, slots, strict=True)])
        offered += size
    return held[:, :capacity]


class TestReservoir:
    """Which samples are kept."""

    def test_every_position_of_the_stream_is_kept_equally_often(self):
        """Over 1000 seeds each of 200 samples is held 50 times in 1000 (M = 10): chi-square of 199 below its 99.9 % point."""
        held = filled(10, [7] * 28 + [4], seeds=range(1000))
        counts = np.bincount(held.flatten().numpy(), minlength=200)

        assert ((counts - 50) ** 2 / (50 * (1 - 10 / 200))).sum() < 266.4

    @pytest.mark.parametrize("batches", [[3], [3, 7], [3, 7, 7], [3] + [10] * 20])
    def test_occupancy_is_the_smaller_of_capacity_and_offers(self, batches):
        """Tasks of 3, then more samples: 10 slots hold min(10, offered) distinct samples, the rest is empty."""
        held = filled(10, batches)[0]
        kept = held[held >= 0]

        assert len(kept) == min(10, sum(batches))
        assert len(kept.unique()) == len(kept)

    def test_memory_larger_than_the_data_keeps_everything_in_order(self):
        """With more slots than samples the n-th sample lies in slot n."""
        assert filled(50, [8, 8, 8])[0, :24].tolist() == list(range(24))

    def test_later_sample_of_a_batch_wins_its_slot(self):
        """Three samples that draw slot 0 of a full memory: the last one gets it, the others go to the bin (slot 2)."""
        uniform = np.zeros((1, 1, 3))
        slots = memory.reservoir_slots(uniform, np.array([2]), 2)

        assert slots.tolist() == [[[2, 2, 0]]]

    def test_slots_of_a_step_are_distinct_but_for_the_bin(self):
        """Whatever is drawn, no slot is written twice in a step, so every device writes the same."""
        uniform = np.random.default_rng(0).random((4, 200, 32))
        slots = memory.reservoir_slots(uniform, np.arange(200) * 32, 20)

        assert all(len(set(kept)) == len(kept) for row in slots.reshape(-1, 32) for kept in [row[row < 20].tolist()])


class TestReplay:
    """Which entries are replayed."""

    def test_is_without_replacement(self):
        """Eight of 20 entries are eight different ones, in each of many draws."""
        slots, counts = memory.replay_slots(np.random.default_rng(0).random((2, 500, 8)), np.full(500, 20))

        assert all(len(set(row)) == 8 for row in slots.reshape(-1, 8).tolist())
        assert counts.all()

    def test_is_uniform(self):
        """Over 20,000 draws of 4 of 10 each entry comes 8,000 times: chi-square of 9 below its 99.9 % point."""
        slots, _ = memory.replay_slots(np.random.default_rng(1).random((1, 20_000, 4)), np.full(20_000, 10))
        counts = np.bincount(slots.flatten(), minlength=10)

        assert ((counts - 8000) ** 2 / (8000 * 0.6)).sum() < 27.9

    def test_takes_all_entries_where_there_are_fewer(self):
        """Three entries for a draw of five: all three count, the other two are padding."""
        slots, counts = memory.replay_slots(np.random.default_rng(0).random((1, 1, 5)), np.array([3]))

        assert slots[0, 0, :3].tolist() == [0, 1, 2]
        assert counts.tolist() == [[True, True, True, False, False]]
