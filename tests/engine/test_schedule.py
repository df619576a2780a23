"""Steps, epochs and chunks of one stage."""

import pytest

from contilab.engine.schedule import BLOCK, Schedule


def chunks(schedule, limit):
    """Return all chunks of a stage."""
    found, step = [], 0
    while step < schedule.steps:
        found.append(schedule.chunk(step, limit))
        step += found[-1].count
    return found


class TestChunks:
    """A stage cut into chunks."""

    @pytest.mark.parametrize("limit", [1, 3, BLOCK])
    @pytest.mark.parametrize("samples", [1, 9, 10, 11, 1000])
    def test_cover_every_sample_of_every_epoch_once(self, samples, limit):
        """Three epochs in batches of 10: each epoch's batches follow each other from 0 to the last sample."""
        schedule = Schedule(samples, 10, 3 * -(-samples // 10))
        covered = [[], [], []]
        for chunk in chunks(schedule, limit):
            covered[chunk.epoch] += range(chunk.offset, chunk.offset + chunk.count * chunk.batch)

        assert covered == [list(range(samples))] * 3

    def test_stay_within_blocks(self):
        """No chunk crosses the steps whose numbers are drawn together."""
        found = chunks(Schedule(5000, 10, 500), BLOCK)

        assert all(chunk.first // BLOCK == (chunk.first + chunk.count - 1) // BLOCK for chunk in found)

    def test_epochs_repeat_until_the_steps_are_reached(self):
        """Seven steps on three batches are two epochs and one step."""
        found = chunks(Schedule(30, 10, 7), BLOCK)

        assert [chunk.epoch for chunk in found] == [0, 1, 2]
        assert sum(chunk.count for chunk in found) == 7


class TestOffered:
    """How many samples memory was offered."""

    def test_first_epoch_offers_each_sample_once(self):
        """25 samples in batches of 10: 0, 10, 20, 25, and no more in later epochs."""
        schedule = Schedule(25, 10, 9)

        assert [schedule.offered(step, every_epoch=False) for step in range(6)] == [0, 10, 20, 25, 25, 25]

    def test_every_epoch_offers_each_sample_in_each(self):
        """25 samples in batches of 10: the second epoch goes on at 25."""
        schedule = Schedule(25, 10, 9)

        assert [schedule.offered(step, every_epoch=True) for step in range(6)] == [0, 10, 20, 25, 35, 45]
