"""Asymmetric cross entropy: which rows compete."""

import math

import pytest
import torch
from torch.func import grad

from contilab.strategies.contract import Batch
from contilab.strategies.er_ace import Settings, er_ace, present

STRATEGY = er_ace(Settings())


def batch(rows, allowed, weight=1.0):
    """Return samples with equal logits over 8 rows of which *allowed* compete."""
    mask = torch.zeros(len(rows), 8, dtype=torch.bool)
    mask[:, allowed] = True
    return Batch(torch.zeros(len(rows), 8), torch.tensor(rows), mask, torch.full((len(rows),), weight))


class TestLoss:
    """The loss over current and replayed samples."""

    @pytest.mark.parametrize(
        ("rows", "allowed", "expected"),
        [
            ([4, 5], range(6), 2),
            ([4, 4], range(6), 1),
            ([4, 5, 3], range(6), 3),
            ([4, 5, 1], [4, 5, 1], 3),
            ([4, 4], [4, 5], 1),
        ],
    )
    def test_current_rows_compete_among_themselves(self, rows, allowed, expected):
        """With equal logits a current sample costs the log of the number of rows that are present and allowed."""
        loss = STRATEGY.loss((), {"current": batch(rows, list(allowed)), "replay": batch([0], [0])})

        assert float(loss) == pytest.approx(math.log(expected), abs=1e-6)

    def test_present_rows_outside_the_mask_do_not_compete(self):
        """In task-incremental learning P is intersected with the rows of the sample's own task."""
        current = batch([4, 1], [4, 5])
        current = current._replace(mask=torch.stack([current.mask[0], torch.arange(8) < 2]))

        assert float(STRATEGY.loss((), {"current": current, "replay": batch([0], [0])})) == 0

    def test_replayed_rows_compete_with_all_of_their_mask(self):
        """A replayed sample costs log 6 where six rows are allowed; both means are added, whatever their sizes."""
        loss = STRATEGY.loss((), {"current": batch([4, 5, 4], range(6)), "replay": batch([0, 5], range(6))})

        assert float(loss) == pytest.approx(math.log(2) + math.log(6), rel=1e-6)

    def test_current_batch_leaves_old_rows(self):
        """The gradient of the current batch on rows that are not in it is exactly 0."""
        current = batch([4, 5], range(6))

        def loss(logits):
            return STRATEGY.loss((), {"current": current._replace(logits=logits), "replay": batch([0], [0])})

        assert not grad(loss)(torch.randn(2, 8, generator=torch.Generator().manual_seed(0)))[:, [0, 1, 2, 3]].any()


class TestPresent:
    """Rows that a batch has."""

    def test_padding_is_absent(self):
        """A sample of weight 0 makes no row present."""
        samples = batch([2, 6], range(8))._replace(weight=torch.tensor([1.0, 0.0]))

        assert present(samples).nonzero().flatten().tolist() == [2]
