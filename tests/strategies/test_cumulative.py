"""Cumulative training: the loss of naive training, other stages."""

import pytest
import torch

from contilab.strategies.contract import Batch
from contilab.strategies.cumulative import Settings, cumulative
from contilab.strategies.naive import naive


class TestCumulative:
    """What it tells the engine."""

    @pytest.mark.parametrize("restart", [False, True])
    def test_stages_hold_all_tasks_so_far(self, restart):
        """It asks for the data of all tasks so far, and for a new beginning only if told so."""
        strategy = cumulative(Settings(restart=restart))

        assert (strategy.stages, strategy.is_fresh) == ("cumulative", restart)

    def test_loss_is_that_of_naive_training(self):
        """The bits are those of the mean cross entropy under each sample's own mask."""
        logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
        batch = Batch(logits, torch.tensor([0, 1, 0, 1, 0]), torch.arange(4).expand(5, 4) < 2, torch.ones(5))

        assert torch.equal(cumulative(Settings()).loss((), {"current": batch}), naive().loss((), {"current": batch}))
