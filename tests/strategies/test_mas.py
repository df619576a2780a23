"""Memory-aware synapses against closed forms of a linear model."""

import pytest
import torch
from torch.func import jacrev, vmap

from contilab.strategies.contract import Member, TaskEnd
from contilab.strategies.mas import Settings, mas

DTYPE = torch.float64
STRATEGY = mas(Settings())


def member(*, strength=1.0, blend="off", cap="off"):
    """Return a member with these settings."""
    return Member({"strength": strength, "blend": blend, "stiffness_cap": cap}, lr=0.1)


def after_tasks(who, importances):
    """Return the state after tasks that end at 0, 1, 2, ... with the given importances."""
    state = STRATEGY.init({"w": torch.zeros(2, dtype=DTYPE)}, who)
    for task, found in enumerate(importances):
        theta = {"w": torch.full((2,), float(task), dtype=DTYPE)}
        state = STRATEGY.after_task(state, TaskEnd(theta, {"w": torch.tensor(found, dtype=DTYPE)}))
    return state


class TestImportance:
    """How the outputs react to the parameters."""

    def setup_method(self):
        """Draw a linear model and samples whose mask leaves out the last row."""
        generator = torch.Generator().manual_seed(0)
        self.w, self.x = (torch.randn(*shape, generator=generator, dtype=DTYPE) for shape in ((4, 3), (16, 3)))
        self.mask = (torch.arange(4) < 3).expand(16, 4)

    def importance(self, count=16):
        """Return the importance of the first *count* samples, by per-sample gradients."""

        def value(w, x, mask):
            return STRATEGY.importance.terms(w @ x, torch.tensor(0), mask, torch.tensor(0.5))[0]

        gradients = vmap(jacrev(value), in_dims=(None, 0, 0))(self.w, self.x[:count], self.mask[:count])
        return gradients[:, 0].abs().mean(0)

    def test_is_the_closed_form_of_a_linear_model(self):
        """For row k in S it is the mean over samples of abs(2 f_k x); for other rows 0."""
        closed = torch.einsum("nk,ni->ki", (self.x @ self.w.T).abs() * self.mask, 2 * self.x.abs()) / 16

        torch.testing.assert_close(self.importance(), closed)
        assert not self.importance()[3].any()

    def test_absolute_value_is_taken_per_sample(self):
        """Two samples that cancel in the mean gradient do not cancel in the importance."""
        self.x, self.w = torch.tensor([[1.0, 1, 0], [1.0, -1, 0]], dtype=DTYPE), torch.zeros(4, 3, dtype=DTYPE)
        self.w[0] = torch.tensor([1.0, 0, 0])

        torch.testing.assert_close(self.importance(2)[0], torch.tensor([2.0, 2, 0], dtype=DTYPE))

    def test_masked_rows_have_no_part(self):
        """The value is a sum over raw logits of the rows in S: disallowed ones of any size change nothing."""
        mask = torch.tensor([True, False, True])
        values = [
            float(STRATEGY.importance.terms(torch.tensor([3.0, other, 4.0]), torch.tensor(0), mask, torch.tensor(0.0))[0])
            for other in (0.0, 1e9)
        ]

        assert values == [25, 25]

    def test_needs_no_labels(self):
        """The value is the same for every label and every draw."""
        logits, mask = torch.tensor([1.0, 2.0]), torch.ones(2, dtype=torch.bool)
        values = {
            float(STRATEGY.importance.terms(logits, torch.tensor(row), mask, torch.tensor(draw))[0])
            for row, draw in ((0, 0.1), (1, 0.9))
        }

        assert values == {5.0}


class TestPenalty:
    """How importances are put together."""

    @pytest.mark.parametrize(
        ("blend", "expected"), [("off", (6.0, 15.0)), (0.5, (1 / 8 + 2 / 4 + 3 / 2, 7 / 8 + 8 / 2)), (0.0, (3.0, 8.0))]
    )
    def test_over_three_tasks(self, blend, expected):
        """Added up, or each task end keeps a share of what was and gives the rest to the new task."""
        state = after_tasks(member(blend=blend), [(1.0, 7.0), (2.0, 0.0), (3.0, 8.0)])

        torch.testing.assert_close(state.importance["w"], torch.tensor(expected, dtype=DTYPE))

    def test_has_no_half(self):
        """Half a unit from the anchor, importances 1 and 7 at strength 3 cost 3 * 8 / 4 and pull with 3 * (1, 7)."""
        state = after_tasks(member(strength=3.0), [(1.0, 7.0)])
        penalty = STRATEGY.penalty(state, {"w": torch.full((2,), 0.5, dtype=DTYPE)})

        assert float(penalty.value) == 6
        assert penalty.grads["w"].tolist() == [3, 21]

    def test_notes_tell_penalty_and_share(self):
        """With a cap of 0.4 at rate 0.1 a stiffness of 2 is free and one of 14 is held at 4: a move by 1 costs (2 + 4) / 2."""
        state = after_tasks(member(cap=0.4), [(1.0, 7.0), (0.0, 0.0)])

        assert STRATEGY.notes(state) == {"mas_capped_share": 0.5, "mas_penalty": (2 + 4) / 2}
