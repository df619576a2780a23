"""The projection of A-GEM against the case worked out by hand and its geometry."""

import pytest
import torch

from contilab.strategies.agem import Settings, agem, dot
from contilab.strategies.contract import Reference

STRATEGY = agem(Settings())


def projected(gradient, reference, dtype=torch.float64):
    """Return the projection of a gradient over two parameters."""
    first, *rest = (torch.tensor(values, dtype=dtype) for values in (gradient, reference))
    grads = {"a": first[:1], "b": first[1:]}
    return torch.cat(list(STRATEGY.project((), grads, {"a": rest[0][None, :1], "b": rest[0][None, 1:]}).values()))


class TestProjection:
    """The gradient that is left."""

    def test_by_hand(self):
        """(1, -2) with the reference (1, 1) gives (1.5, -1.5): the product is one over all parameters together."""
        torch.testing.assert_close(projected([1, -2], [1, 1]), torch.tensor([1.5, -1.5], dtype=torch.float64))

    def test_is_at_a_right_angle_to_a_reference_it_disagreed_with(self):
        """What is left has no part along the reference, and no less of anything else."""
        gradient, reference = [3.0, -1.0, 2.0, 0.5], [-1.0, 0.5, -2.0, 1.0]
        left = projected(gradient, reference)
        off = torch.tensor(gradient).double() - left

        assert float(left @ torch.tensor(reference).double()) == pytest.approx(0, abs=1e-12)
        assert float(off @ left) == pytest.approx(0, abs=1e-12)

    @pytest.mark.parametrize("size", [1e-7, 0.0])
    def test_a_reference_without_direction_changes_nothing(self, size):
        """A squared norm below 1e-12 is no direction: the gradient stays, and nothing is divided by it."""
        assert projected([1, -2], [0, size]).tolist() == [1, -2]

    def test_is_asked_for_with_256_entries(self):
        """The reference batch has 256 entries of earlier tasks unless a manifest says otherwise."""
        assert STRATEGY.reference == Reference(samples=256)
        assert agem(Settings(reference=10)).reference == Reference(samples=10)


class TestDot:
    """Scalar products over all parameters."""

    def test_sums_over_parameters_of_any_shape(self):
        """A matrix of ones and a vector (2, 3) with itself: 4 + 13."""
        params = {"w": torch.ones(2, 2), "b": torch.tensor([2.0, 3.0])}

        assert float(dot(params, params)) == 17
