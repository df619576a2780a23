"""GDumb: its schedule, and what it tells the engine."""

import pytest
import torch

from contilab.catalog import entry
from contilab.strategies.gdumb import Settings, gdumb


def rates(**settings):
    """Return the learning rate of each pass."""
    own = Settings(**settings)
    return [gdumb(own).training.rate(epoch) for epoch in range(own.passes)]


def reference(settings):
    """Return the rates that torch's own scheduler gives, driven as the authors drive it."""
    optimiser = torch.optim.SGD([torch.zeros(1)], lr=settings.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimiser, T_0=1, T_mult=2, eta_min=settings.lr_end)
    (group,), found = optimiser.param_groups, []
    for epoch in range(settings.passes):
        if epoch <= 1:
            group["lr"] = settings.lr * (0.1 if epoch == 0 else 1.0)
        else:
            optimiser.step()
            scheduler.step()
        found.append(group["lr"])
    return found


class TestSchedule:
    """Warm restarts from 0.05 towards 0.0005."""

    @pytest.mark.parametrize("settings", [Settings(), Settings(passes=40, lr=0.1, lr_end=0.01), Settings(passes=1)])
    def test_is_that_of_torch(self, settings):
        """A warm start at a tenth, then cosine cycles of 1, 2, 4, ... passes, as torch's scheduler has them."""
        assert rates(passes=settings.passes, lr=settings.lr, lr_end=settings.lr_end) == pytest.approx(reference(settings))

    def test_last_pass_is_near_the_end_of_a_cycle(self):
        """128 passes end with the cycle of 64 that began with pass 64."""
        found = rates()

        assert [found[0], found[1], found[64]] == pytest.approx([0.005, 0.05, 0.05])
        assert 0.0005 < found[127] < 0.0006

    def test_a_rising_cycle_is_refused(self):
        """An end above the beginning is named with both values."""
        with pytest.raises(ValueError, match=r"lr_end = 0\.1 is above lr = 0\.05"):
            Settings(lr_end=0.1)


class TestGdumb:
    """What it tells the engine."""

    def test_defaults_are_those_of_the_paper_and_its_code(self):
        """128 passes in batches of 16, SGD with momentum 0.9, decay 1e-6 and norms of at most 10."""
        training = gdumb(Settings()).training

        assert (training.epochs, training.batch) == (128, 16)
        assert training.optim == {"name": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 1e-6, "clip_norm": 10.0}

    def test_optimiser_is_one_of_the_menu(self):
        """Its table can be built as if a manifest had written it."""
        optim = dict(gdumb(Settings(clip_norm=3.0)).training.optim)
        optimiser = entry("optim", optim.pop("name"))

        assert optimiser.make(optimiser.settings(**optim)).clip_norm == 3.0

    def test_learns_memory_alone_from_the_beginning(self):
        """Stages have the entries of a class-balanced memory, each begins with the initial parameters."""
        strategy = gdumb(Settings())

        assert (strategy.stages, strategy.is_fresh, strategy.replay) == ("memory", True, ())
        assert entry("method", "gdumb").memory["policy"] == ("class_balanced",)
