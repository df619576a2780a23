"""Experience replay against naive training and against losses worked out by hand."""

import math

import pytest
import torch
from torch.func import grad

from contilab.strategies.contract import Batch, Member, TaskEnd
from contilab.strategies.er import Settings, er
from contilab.strategies.naive import naive

BOTH = pytest.mark.parametrize("weighting", ["concat", "tasks"])
PARAMS = {"w": torch.zeros(1)}


def uniform_batch(allowed, count, weight=1.0):
    """Return *count* samples with equal logits over *allowed* rows of 8, each of which costs log *allowed*."""
    mask = (torch.arange(8) < allowed).expand(count, 8)
    return Batch(torch.zeros(count, 8), torch.zeros(count, dtype=torch.int64), mask, torch.full((count,), weight))


def in_task(strategy, task):
    """Return the state of *strategy* in its task number *task*."""
    state = strategy.init(PARAMS, Member({}, 0.1))
    for _ in range(task if strategy.after_task else 0):
        state = strategy.after_task(state, TaskEnd(PARAMS, None))
    return state


class TestReplay:
    """The loss over current and replayed samples."""

    def test_concat_is_one_mean(self):
        """Two current samples at log 2 and six replayed at log 4 have the mean 1.75 log 2, in every task."""
        strategy = er(Settings())
        batches = {"current": uniform_batch(2, 2), "replay": uniform_batch(4, 6)}
        losses = [float(strategy.loss(in_task(strategy, task), batches)) for task in (0, 3)]

        assert losses == pytest.approx([1.75 * math.log(2)] * 2, rel=1e-6)

    @pytest.mark.parametrize(("task", "share"), [(0, 1), (1, 1 / 2), (3, 1 / 4)])
    def test_tasks_weighs_by_the_number_of_tasks(self, task, share):
        """In the k-th task the current mean has the weight 1/k and the replayed mean the rest."""
        strategy = er(Settings(weighting="tasks"))
        batches = {"current": uniform_batch(2, 2), "replay": uniform_batch(4, 6)}
        expected = share * math.log(2) + (1 - share) * math.log(4)

        assert float(strategy.loss(in_task(strategy, task), batches)) == pytest.approx(expected, rel=1e-6)

    def test_concat_does_nothing_between_tasks(self):
        """One mean over both batches knows no tasks, so it needs no boundaries."""
        assert er(Settings()).after_task is None

    @BOTH
    @pytest.mark.parametrize("task", [0, 2])
    def test_empty_memory_is_naive(self, weighting, task):
        """With nothing replayed, loss and gradient are the bits of naive training: a memory of 0 is no method."""
        strategy = er(Settings(weighting=weighting))
        generator = torch.Generator().manual_seed(0)
        current = uniform_batch(5, 3)._replace(logits=torch.randn(3, 8, generator=generator))
        empty = uniform_batch(4, 6, weight=0.0)
        state = in_task(strategy, task)

        def replayed(logits):
            return strategy.loss(state, {"current": current._replace(logits=logits), "replay": empty})

        def plain(logits):
            return naive().loss((), {"current": current._replace(logits=logits)})

        assert torch.equal(plain(current.logits), replayed(current.logits))
        assert torch.equal(grad(plain)(current.logits), grad(replayed)(current.logits))

    def test_replayed_sample_keeps_its_own_mask(self):
        """A replayed sample costs what it costs alone under the mask of its own task, whatever the current mask is."""
        logits = torch.tensor([[3.0, -1.0, 9.0, 9.0]])
        old = Batch(logits, torch.tensor([1]), torch.tensor([[True, True, False, False]]), torch.ones(1))
        nothing = old._replace(mask=~old.mask, row=torch.tensor([2]), weight=torch.zeros(1))
        strategy = er(Settings())

        loss = strategy.loss(in_task(strategy, 1), {"current": nothing, "replay": old})

        assert float(loss) == pytest.approx(float(naive().loss((), {"current": old})))
        assert float(loss) == pytest.approx(math.log(1 + math.exp(4)))
