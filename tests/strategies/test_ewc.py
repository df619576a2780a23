"""Elastic weight consolidation against cases worked out by hand and against closed forms."""

import pytest
import torch
from torch.func import grad, jacrev, vmap

from contilab.strategies.contract import Batch, Member, TaskEnd
from contilab.strategies.ewc import Settings, ewc
from contilab.strategies.naive import naive

DTYPE = torch.float64


def vector(*values):
    """Return a vector in float64."""
    return torch.tensor(values, dtype=DTYPE)


def member(*, strength=4.0, decay=1.0, cap="off", lr=0.2):
    """Return a member with these settings."""
    return Member({"strength": strength, "decay": decay, "stiffness_cap": cap}, lr)


def after_tasks(strategy, who, ends):
    """Return the state after tasks that end with the given (parameters, Fisher) pairs."""
    state = strategy.init({"w": torch.zeros_like(ends[0][0])}, who)
    for theta, fisher in ends:
        state = strategy.after_task(state, TaskEnd({"w": theta}, {"w": fisher}))
    return state


ONE_TASK = [(vector(1, -1), vector(2, 0.5))]
THREE_TASKS = [(vector(1, -1), vector(2, 0.5)), (vector(0, 3), vector(4, 0)), (vector(-1, 0.5), vector(1, 8))]


class TestPenalty:
    """The springs and what they cost."""

    @pytest.mark.parametrize(
        ("cap", "penalty", "pull", "theta_next"),
        [("off", 2.0, (4, 2), (0.7, -0.4)), (1.0, 1.625, (2.5, 2), (1.0, -0.4))],
    )
    def test_two_parameters_by_hand(self, cap, penalty, pull, theta_next):
        """Strength 4, A (2, 0.5), a (1, -1), theta (1.5, 0), eta0 0.2: the numbers of the method's reference."""
        strategy = ewc(Settings())
        state = after_tasks(strategy, member(cap=cap), ONE_TASK)
        theta = vector(1.5, 0)
        value, grads = strategy.penalty(state, {"w": theta})

        assert float(value) == pytest.approx(penalty, abs=1e-15)
        torch.testing.assert_close(grads["w"], vector(*pull))
        torch.testing.assert_close(theta - 0.2 * grads["w"], vector(*theta_next))

    def test_first_task_is_free(self):
        """Nothing is added before a task has ended, however far the parameters are."""
        strategy = ewc(Settings())
        state = strategy.init({"w": vector(1, 2)}, member(strength=1e9))

        assert float(strategy.penalty(state, {"w": vector(300, -400)}).value) == 0

    def test_online_over_three_tasks(self):
        """The importance decays once per task end and the anchor is the last task's end: A = F1/4 + F2/2 + F3."""
        state = after_tasks(ewc(Settings()), member(decay=0.5), THREE_TASKS)

        torch.testing.assert_close(state.importance["w"], vector(0.5 + 2 + 1, 0.125 + 0 + 8))
        torch.testing.assert_close(state.anchor["w"], vector(-1, 0.5))

    def test_separate_is_one_penalty_per_task(self):
        """A (theta - a)^2 differs from the sum of one quadratic per task by the same constant for every theta."""
        strategy = ewc(Settings(variant="separate"))
        state = after_tasks(strategy, member(), THREE_TASKS)
        thetas = [torch.randn(2, generator=torch.Generator().manual_seed(seed), dtype=DTYPE) for seed in range(5)]

        def per_task(theta):
            return sum(4 / 2 * (fisher * (theta - end) ** 2).sum() for end, fisher in THREE_TASKS)

        constants = torch.stack([per_task(theta) - strategy.penalty(state, {"w": theta}).value for theta in thetas])

        torch.testing.assert_close(constants, constants[:1].expand(5), rtol=1e-12, atol=0)

    def test_separate_anchor_without_importance_is_zero(self):
        """A parameter that no task needed has no anchor and no pull; nothing is divided by its importance of 0."""
        state = after_tasks(ewc(Settings(variant="separate")), member(), [(vector(5, 7), vector(0, 2))])

        torch.testing.assert_close(state.anchor["w"], vector(0, 7))

    def test_variants_agree_on_one_task(self):
        """After one task the online and the separate form are the same springs."""
        online, separate = (
            after_tasks(ewc(Settings(variant=variant)), member(), ONE_TASK) for variant in ("online", "separate")
        )

        torch.testing.assert_close(online.stiffness, separate.stiffness)
        torch.testing.assert_close(online.anchor, separate.anchor)

    def test_anchor_stands_still(self):
        """Parameters that are later updated in place do not take the anchor with them."""
        strategy = ewc(Settings())
        theta = vector(1, -1)
        state = after_tasks(strategy, member(), [(theta, vector(2, 0.5))])

        theta += 5

        torch.testing.assert_close(state.anchor["w"], vector(1, -1))

    def test_notes_tell_penalty_share_and_estimator(self):
        """The record holds the penalty at the end of the task, before its anchor moved, and the share of capped springs."""
        strategy = ewc(Settings())
        state = after_tasks(strategy, member(cap=1.0), [*ONE_TASK, (vector(1.5, 0), vector(0, 0))])

        assert strategy.notes(state) == {"ewc_fisher": "empirical", "ewc_capped_share": 0.5, "ewc_penalty": 1.625}


class TestStiffnessCap:
    """The bound on the stiffness of the springs."""

    def test_a_step_on_the_penalty_never_overshoots(self):
        """With a cap of 1 a step moves each parameter at most to its anchor, for every strength; without a cap it does not."""
        theta = vector(1.5, 0)
        strategy = ewc(Settings())
        left = {}
        for cap in (1.0, "off"):
            state = after_tasks(strategy, member(strength=1e9, cap=cap), ONE_TASK)
            pull = strategy.penalty(state, {"w": theta}).grads["w"]
            left[cap] = (theta - 0.2 * pull - state.anchor["w"]) / (theta - state.anchor["w"])

        assert ((left[1.0] > -1e-6) & (left[1.0] <= 1)).all()
        assert (left["off"] < -1).all()

    def test_cap_is_taken_per_member(self):
        """The bound is cap / eta0 with the member's own learning rate."""
        bounds = [float(ewc(Settings()).init({"w": vector(0)}, member(cap=0.5, lr=lr)).bound) for lr in (0.1, 0.5)]

        assert bounds == [5, 1]


def step_data(seed):
    """Return inputs, rows and masks of a task."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(16, 3, generator=generator, dtype=DTYPE) + seed
    row = torch.randint(0, 4, (16,), generator=generator)
    return x, row, torch.ones(16, 4, dtype=torch.bool)


def trained(strategy, who, steps=60):
    """Train a linear model on two tasks, by steps on loss plus penalty; return the parameters after each, and notes."""
    params = {"w": torch.zeros(4, 3, dtype=DTYPE)}
    state = strategy.init(params, who)
    ends = []
    for task in range(2):
        x, row, mask = step_data(task)

        def loss(params, state=state, x=x, row=row, mask=mask):
            batch = Batch(x @ params["w"].T, row, mask, torch.ones(16, dtype=DTYPE))
            penalty = strategy.penalty(state, params).value if strategy.penalty else 0.0
            return strategy.loss(state, {"current": batch}) + penalty

        for _ in range(steps):
            params = {"w": params["w"] - who.lr * grad(loss)(params)["w"]}
        ends.append(params["w"])
        if strategy.after_task:
            state = strategy.after_task(state, TaskEnd(params, fisher_of(strategy.importance, params["w"], (x, row, mask))))
    return ends, state


def fisher_of(request, w, samples, draw=None):
    """Return the importance as the contract of strategies defines it, for the linear model w x."""
    x, row, mask = samples
    draw = torch.full((len(x),), 0.5, dtype=DTYPE) if draw is None else draw

    def values(w, x, row, mask, draw):
        return request.terms(w @ x, row, mask, draw)

    gradient, weight = vmap(jacrev(values, has_aux=True), in_dims=(None, 0, 0, 0, 0))(w, x, row, mask, draw)
    return {"w": torch.einsum("nk,nkci->ci", weight, gradient**2) / len(x)}


class TestTraining:
    """Two tasks of a linear model, trained in full."""

    @pytest.mark.parametrize("cap", [1.0, "off"])
    def test_strength_zero_is_naive(self, cap):
        """A strength of 0 gives the very parameters of naive training."""
        ends, _ = trained(ewc(Settings()), member(strength=0.0, cap=cap))
        plain, _ = trained(naive(), member())

        assert torch.equal(torch.stack(ends), torch.stack(plain))

    def test_huge_strength_keeps_the_first_task(self):
        """A strength of 1e9 holds the weights of the first task, without nan, where naive training moves them."""
        (first, second), _ = trained(ewc(Settings()), member(strength=1e9, cap=1.0, lr=0.1))
        (_, moved), _ = trained(naive(), member(lr=0.1))

        assert torch.isfinite(second).all()
        assert (second - first).norm() < 0.2 * (moved - first).norm()

    def test_penalty_is_there(self):
        """The penalty at the end of the second task is above 0 and holds the weights nearer to the first task's."""
        strategy = ewc(Settings())
        (first, second), state = trained(strategy, member(strength=1.0))
        (_, moved), _ = trained(naive(), member())

        assert strategy.notes(state)["ewc_penalty"] > 0
        assert (second - first).norm() < (moved - first).norm()


class TestFisher:
    """Logistic regression: the gradient of log p(y) for row k is (1[y = k] - p_k) x."""

    def setup_method(self):
        """Draw a linear model and samples, the last row allowed for its own samples only."""
        self.x, self.row, self.mask = step_data(1)
        self.mask[:, 3] = self.row == 3
        self.w = torch.randn(4, 3, generator=torch.Generator().manual_seed(5), dtype=DTYPE)
        self.p = torch.softmax((self.x @ self.w.T).masked_fill(~self.mask, -torch.inf), dim=-1)

    def fisher(self, kind, draw=None):
        """Return the Fisher of the estimator *kind* [C, D]."""
        return fisher_of(ewc(Settings(fisher=kind)).importance, self.w, (self.x, self.row, self.mask), draw)["w"]

    def test_empirical_is_the_closed_form(self):
        """The labels of the data: mean of (1[y = k] - p_k)^2 x^2."""
        residual = torch.nn.functional.one_hot(self.row, 4) - self.p

        torch.testing.assert_close(self.fisher("empirical"), torch.einsum("nk,ni->ki", residual**2, self.x**2) / 16)

    def test_exact_is_the_closed_form(self):
        """All labels by their probability: mean of p_k (1 - p_k) x^2."""
        torch.testing.assert_close(
            self.fisher("exact"), torch.einsum("nk,ni->ki", self.p * (1 - self.p), self.x**2) / 16, rtol=1e-10, atol=1e-14
        )

    def test_sampled_has_the_exact_mean(self):
        """Averaged over evenly spread draws the sampled estimator is the exact one, within the spacing of the draws."""
        draws = (torch.arange(400, dtype=DTYPE) + 0.5) / 400
        mean = torch.stack([self.fisher("sampled", draw.expand(16)) for draw in draws]).mean(0)

        # Each row's probability is met within 1 / 400, and no squared gradient exceeds max x^2.
        assert (mean - self.fisher("exact")).abs().max() < 4 / 400 * float((self.x**2).max())

    @pytest.mark.parametrize("draw", [0.0, 1 - 2**-53])
    def test_sampled_rows_are_allowed(self, draw):
        """The ends of [0, 1) draw the first and the last allowed row, never a disallowed one."""
        request = ewc(Settings(fisher="sampled")).importance
        logits, mask = torch.zeros(5), torch.tensor([False, True, True, True, False])
        value, weight = request.terms(logits, torch.tensor(0), mask, torch.tensor(draw))

        assert float(value) == pytest.approx(-torch.log(torch.tensor(3.0)).item())
        assert float(weight) == 1

    @pytest.mark.parametrize("kind", ["empirical", "exact", "sampled"])
    def test_disallowed_rows_have_no_importance(self, kind):
        """Rows outside the mask of every sample get an importance of exactly 0."""
        self.mask[:, 3] = False
        self.row = self.row.clamp(max=2)

        assert (self.fisher(kind)[3] == 0).all()

    def test_mean_does_not_depend_on_how_samples_are_split(self):
        """The mean over all samples is the mean of the means of its halves: no square of a batch gradient is inside."""
        whole = self.fisher("empirical")
        x, row, mask = self.x, self.row, self.mask
        halves = []
        for part in (slice(0, 8), slice(8, 16)):
            self.x, self.row, self.mask = x[part], row[part], mask[part]
            halves.append(self.fisher("empirical"))

        torch.testing.assert_close(whole, (halves[0] + halves[1]) / 2)


class TestSettings:
    """What settings refuse."""

    def test_separate_refuses_a_decay(self):
        """A decay that nothing would read is refused, so two runs never differ in name only."""
        with pytest.raises(ValueError, match=r'decay = 0.5 has no meaning with variant = "separate"'):
            Settings(variant="separate", decay=0.5)
