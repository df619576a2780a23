"""Synaptic intelligence against the case worked out by hand and against properties of its path integral."""

from itertools import pairwise

import pytest
import torch

from contilab.strategies.contract import Member, StepEnd, TaskEnd
from contilab.strategies.si import Settings, si

DTYPE = torch.float64
STRATEGY = si(Settings())


def vector(*values):
    """Return one parameter in float64."""
    return {"w": torch.tensor(values, dtype=DTYPE)}


def member(*, strength=1.0, damping=0.1, cap="off", lr=0.1):
    """Return a member with these settings."""
    return Member({"strength": strength, "damping": damping, "stiffness_cap": cap}, lr)


def along(state, points, slopes):
    """Return the state after steps from point to point, with a gradient each."""
    for (before, after), slope in zip(pairwise(points), slopes, strict=True):
        state = STRATEGY.after_step(state, StepEnd(before, after, slope))
    return state


def by_hand(who=None):
    """Return the state after the task of the reference: gradients -2 and -1, moves 0.2 and 0.1."""
    state = STRATEGY.init(vector(0), who or member())
    return STRATEGY.after_task(
        along(state, [vector(0), vector(0.2), vector(0.3)], [vector(-2), vector(-1)]), TaskEnd(vector(0.3), None)
    )


class TestPath:
    """The path integral of a task, and the importance it becomes."""

    def test_two_steps_by_hand(self):
        """Gradients -2 and -1 with moves 0.2 and 0.1 give omega 0.5, and Omega 0.5 / (0.09 + 0.1) = 2.6316."""
        state = along(STRATEGY.init(vector(0), member()), [vector(0), vector(0.2), vector(0.3)], [vector(-2), vector(-1)])

        assert float(state.path["w"]) == pytest.approx(0.5, abs=1e-15)
        assert float(by_hand().importance["w"]) == pytest.approx(2.6316, abs=5e-5)

    def test_penalty_has_no_half(self):
        """Half a unit from the anchor the penalty is strength * Omega / 4, and its gradient strength * Omega."""
        penalty = STRATEGY.penalty(by_hand(member(strength=3.0)), vector(0.8))

        assert float(penalty.value) == pytest.approx(3 * 2.6316 / 4, rel=2e-5)
        assert float(penalty.grads["w"]) == pytest.approx(3 * 2.6316, rel=2e-5)

    def test_moves_that_raised_the_loss_give_no_importance(self):
        """A path integral below 0 is clamped: the importance is 0, never negative."""
        state = along(STRATEGY.init(vector(0), member()), [vector(0), vector(0.5)], [vector(2)])

        assert float(STRATEGY.after_task(state, TaskEnd(vector(0.5), None)).importance["w"]) == 0

    def test_a_task_begins_anew(self):
        """After a task the path is 0, and the next task's distance counts from where it began; importances add up."""
        state = along(by_hand(), [vector(0.3), vector(0.5)], [vector(-1)])
        second = STRATEGY.after_task(state, TaskEnd(vector(0.5), None))

        assert float(by_hand().path["w"]) == 0
        assert float(second.importance["w"]) == pytest.approx(0.5 / 0.19 + 0.2 / (0.04 + 0.1), rel=1e-12)
        assert float(second.anchor["w"]) == 0.5

    def test_a_still_parameter_has_no_importance(self):
        """A parameter that never moves has the importance 0, whatever its gradients are."""
        state = along(STRATEGY.init(vector(1), member()), [vector(1), vector(1)], [vector(100)])

        assert float(STRATEGY.after_task(state, TaskEnd(vector(1), None)).importance["w"]) == 0

    def test_sums_up_the_fall_of_the_loss(self):
        """Small steps down a quadratic: the sum over parameters of omega is the fall of the loss, within the step size."""
        curvature, theta = torch.tensor([1.0, 4.0, 0.5], dtype=DTYPE), vector(1, -2, 3)
        state, first = STRATEGY.init(theta, member()), 0.5 * (curvature * theta["w"] ** 2).sum()
        for _ in range(200):
            slope = {"w": curvature * theta["w"]}
            after = {"w": theta["w"] - 0.005 * slope["w"]}
            state, theta = STRATEGY.after_step(state, StepEnd(theta, after, slope)), after
        fall = first - 0.5 * (curvature * theta["w"] ** 2).sum()

        assert float(state.path["w"].sum()) == pytest.approx(float(fall), rel=0.02)


class TestNotes:
    """What the record gets."""

    def test_penalty_before_the_anchor_moved(self):
        """Moved by 0.5 in a second task, the penalty at its end is Omega / 4."""
        second = STRATEGY.after_task(by_hand(), TaskEnd(vector(0.8), None))

        assert STRATEGY.notes(second)["si_penalty"] == pytest.approx(0.5 / 0.19 / 4, rel=1e-12)

    def test_capped_share(self):
        """A cap of 0.1 at rate 0.1 bounds the stiffness at 1, below 2 * 2.6316."""
        state = by_hand(member(cap=0.1))

        assert STRATEGY.notes(state)["si_capped_share"] == 1
        assert float(state.stiffness["w"]) == 1
