"""The solver of gem, checked by the conditions that hold at the minimum and nowhere else."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import vmap

from contilab.strategies.gem import multipliers
from contilab.strategies.nonnegative import argmin_nonnegative

DTYPE = torch.float64


def drawn(count, width, seed, kind="plain"):
    """Return *count* directions of length about 1 in *width* dimensions, some of them hard, and a vector."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, width, generator=generator, dtype=DTYPE)
    if kind == "twins":  # every second direction nearly repeats the one before
        rows[1::2] = rows[: count // 2 * 2 : 2] + 1e-4 * rows[1::2]
    if kind == "opposed":
        rows[1::2] = -rows[: count // 2 * 2 : 2] + 1e-2 * rows[1::2]
    if kind == "scales":
        rows *= 10.0 ** torch.linspace(-2, 2, count, dtype=DTYPE)[:, None]
    if kind == "zeros":
        rows[::3] = 0
    return rows, torch.randn(width, generator=generator, dtype=DTYPE)


def objective(quadratic, linear, found):
    """Return 1/2 u^T P u + q^T u."""
    return 0.5 * found @ quadratic @ found + linear @ found


class TestSolver:
    """The minimum over numbers that are not negative."""

    @settings(max_examples=80, deadline=None, derandomize=True)
    @given(
        count=st.integers(1, 20),
        width=st.integers(1, 40),
        seed=st.integers(0, 2**31),
        kind=st.sampled_from(["plain", "twins", "opposed", "scales", "zeros"]),
        margin=st.sampled_from([0.0, 0.5, 10.0]),
    )
    def test_satisfies_the_optimality_conditions(self, count, width, seed, kind, margin):
        """Up to 20 constraints: v >= margin, no slope is negative, and none is positive where v is above the margin."""
        rows, gradient = drawn(count, width, seed, kind)
        gram, along = rows @ rows.T, rows @ gradient
        found = multipliers(gram, along, torch.tensor(margin, dtype=DTYPE))
        is_there = gram.diagonal() > 0
        ridge = 1e-6 * gram.diagonal().sum() / is_there.sum().clamp(min=1)
        slope = gram @ found + ridge * is_there * found + along
        terms = gram.abs() @ found + along.abs() + 1e-30  # what the slope is a sum of: rounding is relative to it

        assert (found >= margin).all()
        assert (slope >= -1e-9 * terms.max()).all()
        assert (slope[found > margin] <= 1e-9 * terms.max()).all()

    @pytest.mark.parametrize("seed", range(20))
    def test_equals_the_best_of_all_subsets(self, seed):
        """With five numbers, solving for each of 32 sets of free ones and keeping the best that is feasible gives the same."""
        rows, gradient = drawn(5, 7, seed)
        quadratic, linear = rows @ rows.T, rows @ gradient
        candidates = [torch.zeros(5, dtype=DTYPE)]
        for free in itertools.chain.from_iterable(itertools.combinations(range(5), size) for size in range(1, 6)):
            found, places = torch.zeros(5, dtype=DTYPE), list(free)
            found[places] = torch.linalg.solve(quadratic[places][:, places], -linear[places])
            candidates += [found] if (found >= 0).all() else []
        best = min(candidates, key=lambda found: float(objective(quadratic, linear, found)))

        torch.testing.assert_close(argmin_nonnegative(quadratic, linear), best, rtol=1e-9, atol=1e-11)

    def test_many_at_once_equal_one_by_one(self):
        """Under vmap ten problems have the solutions they have alone."""
        problems = [drawn(8, 12, seed) for seed in range(10)]
        quadratic = torch.stack([rows @ rows.T for rows, _ in problems])
        linear = torch.stack([rows @ gradient for rows, gradient in problems])
        alone = torch.stack([argmin_nonnegative(*pair) for pair in zip(quadratic, linear, strict=True)])

        torch.testing.assert_close(vmap(argmin_nonnegative)(quadratic, linear), alone, rtol=1e-9, atol=1e-11)

    def test_one_number(self):
        """The minimum of u^2 + q u is -q / 2, or 0 where that is negative."""
        found = [
            float(argmin_nonnegative(torch.tensor([[2.0]], dtype=DTYPE), torch.tensor([q], dtype=DTYPE))) for q in (-3.0, 3.0)
        ]

        assert found == [1.5, 0]

    def test_numbers_that_are_not_finite_raise_nothing(self):
        """A member that diverged gets no numbers, and its mates go on."""
        found = argmin_nonnegative(torch.full((3, 3), torch.nan, dtype=DTYPE), torch.ones(3, dtype=DTYPE))

        assert found.shape == (3,)
