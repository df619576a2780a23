"""The projection of GEM against the case worked out by hand, and its two differences from A-GEM."""

import pytest
import torch

from contilab.strategies.agem import Settings as AgemSettings
from contilab.strategies.agem import agem
from contilab.strategies.contract import Member
from contilab.strategies.gem import Settings, gem, multipliers

DTYPE = torch.float64


def projected(gradient, tasks, *, margin=0.0, **settings):
    """Return the projection of *gradient* given one gradient per earlier task."""
    strategy = gem(Settings(**settings))
    gradient = torch.as_tensor(gradient, dtype=DTYPE)
    state = strategy.init({"w": gradient}, Member({"margin": margin}, 0.1))
    return strategy.project(state, {"w": gradient}, {"w": torch.as_tensor(tasks, dtype=DTYPE)})["w"]


def drawn(count, seed=0):
    """Return a gradient and those of *count* tasks that all disagree with it."""
    generator = torch.Generator().manual_seed(seed)
    gradient = torch.randn(30, generator=generator, dtype=DTYPE)
    return gradient, torch.randn(count, 30, generator=generator, dtype=DTYPE) - gradient


class TestProjection:
    """The gradient that is left."""

    @pytest.mark.parametrize(("margin", "weights", "left"), [(0.0, (0, 2), (1, 0)), (0.5, (0.5, 1.5), (1.5, 0))])
    def test_by_hand(self, margin, weights, left):
        """(1, -2) with tasks (1, 1) and (0, 1): the numbers of the method's reference, within the ridge of 1e-6."""
        gram, along = torch.tensor([[2.0, 1], [1, 1]], dtype=DTYPE), torch.tensor([-1.0, -2], dtype=DTYPE)
        found = multipliers(gram, along, torch.tensor(margin, dtype=DTYPE))

        torch.testing.assert_close(found, torch.tensor(weights, dtype=DTYPE), rtol=0, atol=1e-5)
        torch.testing.assert_close(
            projected([1, -2], [[1, 1], [0, 1]], margin=margin), torch.tensor(left, dtype=DTYPE), rtol=0, atol=1e-5
        )

    @pytest.mark.parametrize("count", [1, 4, 19])
    def test_no_earlier_task_gets_worse(self, count):
        """What is left points against no task, within the ridge."""
        gradient, tasks = drawn(count)
        left = projected(gradient, tasks)

        assert (tasks @ gradient < 0).all()
        assert (tasks @ left > -1e-3).all()

    def test_a_margin_helps_earlier_tasks(self):
        """With a margin of 0.5 what is left points along the earlier tasks more than without."""
        gradient, tasks = drawn(4)
        plain, more = (tasks @ projected(gradient, tasks, margin=margin) for margin in (0.0, 0.5))

        assert more.mean() > plain.mean() + 1

    def test_one_violation_is_enough(self):
        """One task that disagrees starts the projection, and the margin then counts for the one that agrees too."""
        left = projected([1, -2], [[1, 0], [0, 1]], margin=0.5)

        torch.testing.assert_close(left, torch.tensor([1.5, 0.0], dtype=DTYPE), rtol=0, atol=1e-5)

    @pytest.mark.parametrize("margin", [0.0, 0.5])
    def test_a_task_without_entries_constrains_nothing(self, margin):
        """A row of zeros among the tasks leaves the result as it is without that task."""
        gradient, tasks = drawn(3)
        padded = torch.cat([tasks[:1], torch.zeros(2, 30, dtype=DTYPE), tasks[1:]])

        torch.testing.assert_close(
            projected(gradient, padded, margin=margin), projected(gradient, tasks, margin=margin), rtol=1e-9, atol=1e-12
        )

    @pytest.mark.parametrize("margin", [0.0, 0.5])
    def test_small_gradients_are_projected_like_large_ones(self, margin):
        """All gradients times 1e-4 give the result times 1e-4; an absolute ridge of 1e-3 would swamp them."""
        gradient, tasks = drawn(4)

        torch.testing.assert_close(
            1e-4 * projected(gradient, tasks, margin=margin),
            projected(1e-4 * gradient, 1e-4 * tasks, margin=margin),
            rtol=1e-9,
            atol=1e-15,
        )


class TestSwitches:
    """What GEM has and A-GEM has not."""

    def test_without_both_it_is_agem(self):
        """One constraint for the mean of the tasks and no margin: A-GEM's projection with that mean as reference."""
        gradient, tasks = drawn(4)
        mean = {"w": tasks.mean(0)[None]}
        expected = agem(AgemSettings()).project((), {"w": gradient}, mean)["w"]

        torch.testing.assert_close(projected(gradient, tasks, constraints="mean"), expected, rtol=0, atol=1e-4)

    def test_the_mean_is_that_of_tasks_with_entries(self):
        """A task without entries has no part in the mean."""
        gradient, tasks = drawn(3)
        padded = torch.cat([tasks, torch.zeros(2, 30, dtype=DTYPE)])

        torch.testing.assert_close(
            projected(gradient, padded, constraints="mean", margin=0.5),
            projected(gradient, tasks, constraints="mean", margin=0.5),
        )
