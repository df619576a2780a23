"""Dark experience replay against losses worked out by hand."""

import math

import pytest
import torch

from contilab import catalog
from contilab.strategies.contract import Batch, Member
from contilab.strategies.der import Settings, der
from contilab.strategies.derpp import Settings as MoreSettings
from contilab.strategies.derpp import derpp

THETA = {"w": torch.zeros(1)}


def batch(count, *, allowed=4, distance=0.0, weight=1.0):
    """Return samples with equal logits over 4 rows, *distance* away from stored ones on each."""
    mask = (torch.arange(4) < allowed).expand(count, 4)
    weights = torch.full((count,), weight)
    return Batch(torch.zeros(count, 4), torch.zeros(count, dtype=torch.int64), mask, weights, torch.full((count, 4), distance))


def loss(alpha, current, replay):
    """Return the loss of a member with this alpha."""
    strategy = der(Settings())
    return float(strategy.loss(strategy.init(THETA, Member({"alpha": alpha}, 0.1)), {"current": current, "replay": replay}))


class TestLoss:
    """The squared error of replayed logits."""

    def test_is_a_mean_over_rows_and_samples(self):
        """Logits 3 off on every row cost alpha * 9, however many samples and rows there are."""
        losses = [loss(0.5, batch(2, allowed=1), batch(count, distance=3.0)) for count in (1, 7)]

        assert losses == pytest.approx([4.5, 4.5])

    def test_takes_raw_logits_of_all_rows(self):
        """A mask of one row changes nothing: masked logits of -1e9 would cost 1e18."""
        losses = [loss(1.0, batch(1, allowed=1), batch(3, allowed=allowed, distance=1.0)) for allowed in (1, 4)]

        assert losses == [1, 1]

    @pytest.mark.parametrize("alpha", [0.0, 1.0])
    def test_without_alpha_or_entries_only_the_current_batch_counts(self, alpha):
        """An alpha of 0, or an empty memory, leaves the cross entropy of the current batch."""
        replay = batch(3, distance=100.0, weight=alpha * 0.0 if alpha else 1.0)

        assert loss(alpha, batch(2, allowed=2), replay) == pytest.approx(math.log(2))

    def test_derpp_without_labels_is_der(self):
        """With beta 0 dark experience replay with labels has the same loss, whatever its second draw is."""
        more = derpp(MoreSettings())
        state = more.init(THETA, Member({"alpha": 0.3, "beta": 0.0}, 0.1))
        batches = {"current": batch(2, allowed=2), "replay": batch(3, distance=2.0), "labels": batch(5)}

        assert float(more.loss(state, batches)) == pytest.approx(loss(0.3, batches["current"], batches["replay"]))


class TestEntry:
    """What a manifest gets."""

    @pytest.mark.parametrize("name", ["der", "derpp"])
    def test_keeps_logits_along_the_whole_trajectory(self, name):
        """Samples are offered in every epoch unless a manifest says otherwise, and memory keeps their logits."""
        entry = catalog.entry("method", name)

        assert entry.memory["insert"][0] == "every_epoch"
        assert entry.make(entry.settings()).keeps_logits

    def test_defaults_are_those_of_the_reference(self):
        """Alpha is 0.3 for der; 0.1, with beta 0.5, for derpp."""
        assert Settings().alpha == 0.3
        assert (MoreSettings().alpha, MoreSettings().beta) == (0.1, 0.5)
