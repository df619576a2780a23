"""A small quadratic problem over numbers that are not negative: the solver of gem.

u* = argmin_{u >= 0} 1/2 u^T P u + q^T u, with P positive definite. At u* the slope w = P u + q is not negative, and 0 wherever
u is above 0.

The active set method of Lawson & Hanson 1974 ("Solving least squares problems", chapter 23), with its two loops unrolled into
one of a fixed number of turns, so that it goes through vmap: a turn solves for the free numbers; if some of them would fall
below 0 it goes as far as the first one and ties that to 0, else it frees the number with the steepest negative slope. Every
turn is feasible and none raises the objective, so turns that are spent do no harm. K numbers; no member axis.
"""

import torch
from torch import Tensor

TURNS = 3  # per number, plus one; Lawson & Hanson's limit in common codes. K + 1 are enough if no number has to be tied again
TOLERANCE = 1e-12  # a slope this far below 0, relative to the terms it is a sum of, counts as 0: float64 has 16 digits


def argmin_nonnegative(quadratic: Tensor, linear: Tensor) -> Tensor:
    """Return u* [K] of *quadratic* (P) [K, K], symmetric, and *linear* (q) [K]; both float64.

    A number whose row of P is zero stays 0.

    >>> argmin_nonnegative(torch.tensor([[2.0, 1.0], [1.0, 1.0]]).double(), torch.tensor([-1.0, -2.0]).double())
    tensor([0., 2.], dtype=torch.float64)
    """
    diagonal = quadratic.diagonal()
    is_there = diagonal > 0
    unit = torch.where(is_there, torch.where(is_there, diagonal, 1.0).rsqrt(), 0.0)
    # In units in which the diagonal is 1 the tolerance means the same for every number.
    scaled, slope = unit[:, None] * quadratic * unit, unit * linear
    found, is_free = torch.zeros_like(slope), torch.zeros_like(is_there)
    for _ in range(TURNS * len(slope) + 1):
        found, is_free = _turn(scaled, slope, found, is_free)
    return unit * found


def _turn(quadratic: Tensor, linear: Tensor, found: Tensor, is_free: Tensor) -> tuple[Tensor, Tensor]:
    """Return better numbers, and which of them are free in the next turn."""
    wanted = _solved(quadratic, linear, is_free)
    falls = is_free & (wanted <= 0)
    way = torch.where(falls & (found > 0), found / (found - wanted).clamp(min=1e-300), torch.where(falls, 0.0, 1.0))
    step = way.amin()
    is_tied = falls & (way <= step)
    reached = torch.where(is_tied, 0.0, torch.where(is_free, found + step * (wanted - found), 0.0))
    pull = quadratic @ reached + linear
    terms = (quadratic.abs() @ reached + linear.abs()).amax()
    steepest = torch.where(is_free, torch.inf, pull)
    is_next = torch.arange(len(linear), device=linear.device) == steepest.argmin()
    is_new = is_next & ~is_free & (pull < -TOLERANCE * terms) & ~falls.any()
    return reached, (is_free & ~is_tied) | is_new


def _solved(quadratic: Tensor, linear: Tensor, is_free: Tensor) -> Tensor:
    """Return the minimum [K] over the free numbers, the others being 0."""
    both = is_free[:, None] & is_free
    identity = torch.eye(len(linear), dtype=linear.dtype, device=linear.device)
    # Without a check: a member that diverged has no finite numbers, and must not stop its mates.
    solution: Tensor = torch.linalg.solve_ex(torch.where(both, quadratic, identity), torch.where(is_free, -linear, 0.0)).result
    return solution
