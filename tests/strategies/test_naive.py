"""Plain training: the masked cross entropy that all methods share, and the two bounds."""

import pytest
import torch
from torch.func import grad

from contilab.strategies.contract import Batch
from contilab.strategies.joint import joint
from contilab.strategies.naive import naive


def batch(logits, row, mask, weight=None):
    """Return samples with weight 1, or the given weights."""
    count = len(row)
    return Batch(logits, torch.tensor(row), torch.tensor(mask), torch.ones(count) if weight is None else weight)


class TestNaive:
    """The loss of plain training."""

    def test_is_the_mean_cross_entropy(self):
        """Without masks and padding the loss is torch's own cross entropy."""
        logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
        rows = [0, 3, 1, 1, 2]
        loss = naive().loss((), {"current": batch(logits, rows, [[True] * 4] * 5)})

        torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(logits, torch.tensor(rows)))

    @pytest.mark.parametrize("elsewhere", [-1e12, 0.0, 1e12])
    def test_disallowed_logits_are_replaced(self, elsewhere):
        """A disallowed logit of any size has no influence and gets no gradient: it is replaced, never added to."""

        def loss(logits):
            return naive().loss((), {"current": batch(logits, [0], [[True, True, False]])})

        logits = torch.tensor([[1.0, 1.0, elsewhere]])

        torch.testing.assert_close(loss(logits), torch.tensor(2.0).log())
        torch.testing.assert_close(grad(loss)(logits), torch.tensor([[-0.5, 0.5, 0.0]]))

    def test_padding_only_costs_nothing(self):
        """A batch of nothing but padding has the loss 0 and no gradient."""

        def loss(logits):
            return naive().loss((), {"current": batch(logits, [0, 1], [[True] * 2] * 2, torch.zeros(2))})

        logits = torch.tensor([[1.0, 2.0], [3.0, 4.0]])

        assert float(loss(logits)) == 0
        assert not grad(loss)(logits).any()


class TestJoint:
    """The upper bound."""

    def test_is_naive_in_one_stage(self):
        """Joint training differs from naive in its stages only."""
        assert naive()._replace(stages="joint") == joint()
