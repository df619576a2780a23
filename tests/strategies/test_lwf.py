"""Learning without forgetting against the case worked out by hand and against what its mask must not do."""

import math

import pytest
import torch
from torch.func import grad

from contilab.strategies.contract import Batch, Member, TaskEnd, cross_entropy
from contilab.strategies.lwf import Settings, divergence, lwf

DTYPE = torch.float64
STRATEGY = lwf(Settings())
ACTIVE = lwf(Settings(rows="active"))
THETA = {"w": torch.zeros(1, dtype=DTYPE)}
SETS = {
    "class": [[1, 1, 1, 1, 0, 0], [0] * 6, [0] * 6],
    "task": [[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0] * 6],
    "domain": [[1] * 6, [0] * 6, [0] * 6],
}  # what two of three tasks of two rows leave behind


def groups(scenario):
    """Return the sets of rows after two of three tasks."""
    return torch.tensor(SETS[scenario], dtype=torch.bool)


def state_of(sets, *, temperature=2.0, alpha=1.0):
    """Return the state of a member after tasks that leave *sets*."""
    member = Member({"temperature": temperature, "alpha": alpha}, 0.1, tasks=len(sets), rows=sets.shape[1])
    return STRATEGY.after_task(STRATEGY.init(THETA, member), TaskEnd(THETA, None, sets))


def logits(seed, count=5):
    """Return random logits [count, 6]."""
    return torch.randn(count, 6, generator=torch.Generator().manual_seed(seed), dtype=DTYPE)


def batch(new, old=None):
    """Return samples of the third task, with what its teacher says."""
    count = len(new)
    mask = (torch.arange(6) >= 4).expand(count, 6)
    return Batch(new, torch.full((count,), 4), mask, torch.ones(count, dtype=DTYPE), teacher=old)


def term(state, new, old):
    """Return what is added to the loss of naive training."""
    return STRATEGY.loss(state, {"current": batch(new, old)}) - cross_entropy(batch(new)).mean()


class TestTerm:
    """The distance between the answers of the old model and those of the new one."""

    def test_by_hand(self):
        """Old logits (2, 0), new ones (0, 1), temperature 2: the scaled term is 1.02961."""
        sets = torch.tensor([[True, True]])
        new, old = torch.tensor([[0.0, 1.0]], dtype=DTYPE), torch.tensor([[2.0, 0.0]], dtype=DTYPE)
        state = state_of(sets)
        current = Batch(new, torch.tensor([0]), sets, torch.ones(1, dtype=DTYPE), teacher=old)

        added = float(STRATEGY.loss(state, {"current": current})) - math.log(1 + math.e)

        assert added == pytest.approx(1.02961, abs=5e-6)

    @pytest.mark.parametrize("scenario", SETS)
    def test_is_a_sum_over_sets(self, scenario):
        """It is torch's own KL divergence per set of rows, a mean over samples and a sum over sets, by T^2."""
        new, old, sets = logits(1), logits(2), groups(scenario)
        expected = 0.0
        for rows in sets:
            if rows.any():
                answers = [torch.log_softmax(values[:, rows] / 2, -1) for values in (new, old)]
                expected += 4 * torch.nn.functional.kl_div(*answers, reduction="batchmean", log_target=True)

        torch.testing.assert_close(term(state_of(sets), new, old), expected)

    @pytest.mark.parametrize("active", [6, 5], ids=["all", "seen"])
    def test_over_active_rows(self, active):
        """Over active rows it is the distance from the old answers with zeros appended for new classes."""
        new, old, sets = logits(1), logits(2), groups("class")
        mask = (torch.arange(6) < active).expand(len(new), 6)
        current = batch(new, old)._replace(mask=mask)
        target = torch.nn.functional.pad(torch.softmax(old[:, :4] / 2, -1), (0, active - 4))
        expected = 4 * torch.nn.functional.kl_div(torch.log_softmax(new[:, :active] / 2, -1), target, reduction="batchmean")
        loss = ACTIVE.loss(state_of(sets), {"current": current})

        torch.testing.assert_close(loss - cross_entropy(current).mean(), expected)

    @pytest.mark.parametrize("scenario", ["task", "domain"])
    def test_active_rows_of_heads_and_domains(self, scenario):
        """Where no new row competes with the old ones, active rows are the old ones."""
        current = batch(logits(1), logits(2))
        current = current._replace(mask=torch.ones_like(current.mask)) if scenario == "domain" else current
        batches, state = {"current": current}, state_of(groups(scenario))

        assert torch.equal(ACTIVE.loss(state, batches), STRATEGY.loss(state, batches))

    def test_nothing_in_the_first_task(self):
        """Without a teacher the loss is that of naive training, bit by bit."""
        sets = torch.zeros(3, 6, dtype=torch.bool)

        assert torch.equal(STRATEGY.loss(state_of(sets), {"current": batch(logits(1))}), cross_entropy(batch(logits(1))).mean())

    def test_no_sets_cost_nothing(self):
        """With no row learned so far the divergence is 0, and finite."""
        assert not divergence(
            torch.zeros(3, 6, dtype=torch.bool), logits(1), logits(2), torch.zeros(3, 1, 6, dtype=torch.bool)
        ).any()

    def test_alpha_weighs_it(self):
        """The term is linear in alpha, and 0 for an alpha of 0."""
        terms = [float(term(state_of(groups("class"), alpha=alpha), logits(1), logits(2))) for alpha in (0.0, 1.0, 3.0)]

        assert terms[0] == 0
        assert terms[2] == pytest.approx(3 * terms[1])


@pytest.mark.parametrize("scenario", SETS)
class TestGradient:
    """Where the term pulls."""

    def pull(self, scenario, distance):
        """Return the gradient of the term at logits that are *distance* from the old ones, in a random direction."""
        old, state = logits(2), state_of(groups(scenario))
        return grad(lambda new: term(state, new, old))(old + distance * logits(3))

    def test_is_none_at_the_old_model(self, scenario):
        """At the answers of the old model the term has no gradient."""
        assert self.pull(scenario, 0.0).abs().max() < 1e-15

    def test_is_there_one_step_away(self, scenario):
        """One step away from the old model it pulls at every old row: a wrong mask would leave it without effect."""
        learned = groups(scenario).any(0)

        assert (self.pull(scenario, 0.1)[:, learned].abs() > 1e-6).all()

    def test_leaves_new_rows(self, scenario):
        """Rows that were not learned before are not pulled at."""
        assert not self.pull(scenario, 0.1)[:, ~groups(scenario).any(0)].any()


class TestWeighting:
    """The terms by the number of tasks."""

    def test_weighs_label_and_distance_by_the_number_of_tasks(self):
        """In the second task each term of the hand case counts one half: (1.0296 + 1.3133) / 2."""
        strategy, theta = lwf(Settings(weighting="tasks")), {"w": torch.zeros(1)}
        state = strategy.init(theta, Member({"temperature": 2.0, "alpha": 1.0}, lr=0.1, tasks=1, rows=2))
        state = strategy.after_task(state, TaskEnd(theta, None, torch.tensor([[True, True]])))
        logits, teacher = torch.tensor([[0.0, 1.0]]), torch.tensor([[2.0, 0.0]])
        batch = Batch(logits, torch.tensor([0]), torch.tensor([[True, True]]), torch.ones(1), teacher=teacher)

        assert float(strategy.loss(state, {"current": batch})) == pytest.approx(2.34287 / 2, abs=1e-4)
