"""Every strategy of the catalog, with every choice of its settings, keeps the contract of strategies."""

import dataclasses
import typing

import pytest
import torch
from safetensors.torch import load, save
from torch.func import grad, jacrev, vmap
from torch.utils import _pytree as pytree

from contilab import catalog
from contilab.spec.fields import per_member
from contilab.strategies.contract import Batch, Member, Reference, StepEnd, Strategy, TaskEnd

ROWS, WIDTH, TASKS, DTYPE = 4, 3, 2, torch.float64
GROUPS = torch.tensor([[True, True, False, False], [False, False, False, False]])  # what is learned after one task


def choices(name):
    """Return default settings, and one variant per literal choice of a field; combinations that are refused are left out."""
    settings = catalog.entry("method", name).settings
    variants = [settings()]
    for field in dataclasses.fields(settings):
        hints = pytree.tree_leaves([typing.get_type_hints(settings)[field.name]])
        options = [value for hint in (*hints, *typing.get_args(hints[0])) for value in typing.get_args(hint)]
        variants += [settings(**{field.name: value}) for value in options if isinstance(value, str)]
    return [pytest.param(name, variant, id=f"{name}-{index}") for index, variant in enumerate(dict.fromkeys(variants))]


CASES = [case for name in catalog.STRATEGIES for case in choices(name)]
every_strategy = pytest.mark.parametrize(("name", "settings"), CASES)


def built(name, settings) -> Strategy:
    """Return the strategy of these settings."""
    return catalog.entry("method", name).make(settings)


def member_of(settings, factor=1.0) -> Member:
    """Return a member whose per-member numbers are *factor* times the settings."""
    values = {key: getattr(settings, key) for key in per_member(type(settings))}
    own = {key: value * factor if isinstance(value, float) else value for key, value in values.items()}
    return Member(own, lr=0.1, tasks=TASKS, rows=ROWS)


def params_of(seed):
    """Return parameters of a linear model, drawn from *seed*."""
    generator = torch.Generator().manual_seed(seed)
    return {
        "weight": torch.randn(ROWS, WIDTH, generator=generator, dtype=DTYPE),
        "bias": torch.randn(ROWS, generator=generator, dtype=DTYPE),
    }


STORED = params_of(50)  # whose logits memory keeps


def samples_of(seed, count):
    """Return inputs, rows, masks and weights; the mask allows the sample's own row and at least one other."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, WIDTH, generator=generator, dtype=DTYPE)
    row = torch.randint(0, ROWS, (count,), generator=generator)
    mask = torch.nn.functional.one_hot(row, ROWS).bool() | (torch.arange(ROWS) < 2)
    return inputs, row, mask, torch.ones(count, dtype=DTYPE)


def logits_of(params, inputs):
    """Return the logits [B, ROWS] of a linear model."""
    return inputs @ params["weight"].T + params["bias"]


def draw_samples(strategy, count=5):
    """Return samples for every batch that *strategy* names."""
    return {name: samples_of(100 * index, count) for index, name in enumerate(("current", *strategy.replay))}


def batches_of(samples, params, strategy, state):
    """Return *samples* as batches with the logits of *params*, and with stored and teacher's logits if asked for."""
    batches = {name: Batch(logits_of(params, inputs), *rest) for name, (inputs, *rest) in samples.items()}
    if strategy.keeps_logits:
        stored = STORED
        batches |= {
            name: batch._replace(stored=logits_of(stored, samples[name][0]))
            for name, batch in batches.items()
            if name != "current"
        }
    if strategy.teacher is not None:
        told = logits_of(strategy.teacher(state), samples["current"][0]).detach()
        batches["current"] = batches["current"]._replace(teacher=told)
    return batches


def importance_of(request, params, count=6):
    """Return what the engine hands over at a task end: mean over samples of the weighted sum of reduced gradients."""
    inputs, row, mask, _ = samples_of(7, count)
    draws = torch.linspace(0, 0.99, count, dtype=DTYPE)

    def values(params, x, row, mask, draw):
        return request.terms(logits_of(params, x[None])[0], row, mask, draw)

    gradients, weights = vmap(jacrev(values, has_aux=True), in_dims=(None, 0, 0, 0, 0))(params, inputs, row, mask, draws)
    reduce = {"square": torch.square, "abs": torch.abs}[request.reduce]
    return {name: torch.einsum("nk,nk...->...", weights, reduce(value)) / count for name, value in gradients.items()}


def after_one_task(strategy, settings, factor=1.0, seed=0):
    """Return the state of a member at the start of its second task."""
    params = params_of(seed)
    state = strategy.init(params, member_of(settings, factor))
    if strategy.after_task is None:
        return state
    importance = importance_of(strategy.importance, params) if strategy.importance else None
    if strategy.after_step is not None:
        state = strategy.after_step(state, StepEnd(params_of(seed + 40), params, params_of(seed + 60)))
    return strategy.after_task(state, TaskEnd(params, importance, GROUPS))


def step_loss(strategy):
    """Return the whole loss of a step as a function of parameters and state."""
    samples = draw_samples(strategy)

    def loss(params, state):
        penalty = strategy.penalty(state, params).value if strategy.penalty else 0.0
        return strategy.loss(state, batches_of(samples, params, strategy, state)) + penalty

    return loss


def stacked(trees):
    """Return trees as one, with the member axis first."""
    return pytree.tree_map(lambda *leaves: torch.stack(leaves), *trees)


def cloned(tree):
    """Return a copy of all tensors of a tree."""
    return pytree.tree_map_only(torch.Tensor, torch.clone, tree)


def assert_equal(expected, actual, **tolerance):
    """Compare all tensors of two trees, bitwise without a tolerance."""
    pairs = ([leaf for leaf in pytree.tree_leaves(tree) if leaf is not None] for tree in (actual, expected))
    torch.testing.assert_close(*pairs, **(tolerance or {"rtol": 0, "atol": 0}))


def joined(batch, more):
    """Return two batches as one; what the first does not have, the second does not get."""
    return Batch(*(None if one is None else torch.cat([one, other]) for one, other in zip(batch, more, strict=True)))


@every_strategy
class TestStrategy:
    """What every strategy has to keep."""

    def test_changes_no_argument(self, name, settings):
        """Every function of a strategy leaves states, parameters and batches as they were."""
        strategy = built(name, settings)
        state, params = after_one_task(strategy, settings), params_of(1)
        given = (state, params, batches_of(draw_samples(strategy), params, strategy, state))
        before = cloned(given)

        step_loss(strategy)(params, state)
        strategy.loss(state, given[2])
        if strategy.after_task:
            strategy.after_task(state, TaskEnd(params, params if strategy.importance else None, GROUPS))
        if strategy.notes:
            strategy.notes(state)

        assert_equal(before, given)

    def test_repeats_its_numbers(self, name, settings):
        """The same arguments give the same bits: nothing random and nothing remembered is inside."""
        strategy = built(name, settings)
        state, params = after_one_task(strategy, settings), params_of(1)

        assert_equal(step_loss(strategy)(params, state), step_loss(strategy)(params, state))

    def test_ensemble_equals_members(self, name, settings):
        """Under vmap each member, with its own settings, gets the loss and gradient that it gets alone."""
        strategy = built(name, settings)
        if not strategy.is_vmappable:
            pytest.skip("the strategy says that it is not vmappable")
        members = [(params_of(seed + 10), after_one_task(strategy, settings, 1 - 0.3 * seed, seed)) for seed in range(3)]
        params, states = (stacked(part) for part in zip(*members, strict=True))
        loss = step_loss(strategy)

        alone = stacked([(loss(*member), grad(loss)(*member)) for member in members])

        # 1e-12: float64, and the order of a sum may differ between a batched and a single kernel.
        assert_equal(alone, (vmap(loss)(params, states), vmap(grad(loss))(params, states)), rtol=1e-12, atol=1e-12)

    def test_state_survives_the_disk(self, name, settings):
        """A state saved and loaded as safetensors gives the same bits; no two of its tensors share memory."""
        strategy = built(name, settings)
        first = strategy.init(params_of(0), member_of(settings))
        for state in (first, after_one_task(strategy, settings)):
            leaves, structure = pytree.tree_flatten(state)
            read = load(save({str(index): leaf for index, leaf in enumerate(leaves)}))
            again = pytree.tree_unflatten([read[str(index)] for index in range(len(leaves))], structure)

            assert_equal(step_loss(strategy)(params_of(1), state), step_loss(strategy)(params_of(1), again))

    def test_padding_changes_nothing(self, name, settings):
        """Samples of weight 0, whatever their logits, change neither loss nor gradient."""
        strategy = built(name, settings)
        state, params = after_one_task(strategy, settings), params_of(1)
        plain = batches_of(draw_samples(strategy), params, strategy, state)
        zeros = torch.zeros(3, dtype=DTYPE)
        wild = torch.full((3, ROWS), 1e6, dtype=DTYPE)
        padding = Batch(wild, zeros.long(), torch.ones(3, ROWS).bool(), zeros, stored=-wild, teacher=-wild)
        padded = {key: joined(batch, padding) for key, batch in plain.items()}

        def gradient(batches):
            logits = {key: batch.logits for key, batch in batches.items()}
            return grad(
                lambda logits: strategy.loss(state, {key: each._replace(logits=logits[key]) for key, each in batches.items()})
            )(logits)

        assert_equal(strategy.loss(state, plain), strategy.loss(state, padded), rtol=1e-14, atol=0)
        expected = {key: torch.cat([value, torch.zeros(3, ROWS, dtype=DTYPE)]) for key, value in gradient(plain).items()}
        assert_equal(expected, gradient(padded), rtol=1e-14, atol=0)

    @pytest.mark.parametrize("count", [0, 1])
    def test_small_memory_is_finite(self, name, settings, count):
        """With no or one replayed sample, and one current sample, the loss is a finite number."""
        strategy = built(name, settings)
        state = after_one_task(strategy, settings)
        batches = batches_of(draw_samples(strategy, count=1), params_of(1), strategy, state)
        for replay in strategy.replay:
            batches[replay] = batches[replay]._replace(weight=torch.full((1,), float(count), dtype=DTYPE))

        assert torch.isfinite(strategy.loss(state, batches))

    def test_gradient_is_that_of_the_loss(self, name, settings):
        """The gradient by autograd equals finite differences in float64."""
        strategy = built(name, settings)
        state, params = after_one_task(strategy, settings), params_of(1)

        def loss(weight, bias):
            return step_loss(strategy)({"weight": weight, "bias": bias}, state)

        assert torch.autograd.gradcheck(loss, [params[key].requires_grad_() for key in ("weight", "bias")])

    def test_notes_are_plain(self, name, settings):
        """Notes are finite numbers or text, for the record."""
        strategy = built(name, settings)
        notes = strategy.notes(after_one_task(strategy, settings)) if strategy.notes else {}

        assert [key for key, value in notes.items() if not isinstance(value, str) and not abs(value) < float("inf")] == []

    def test_batches_have_names_of_their_own(self, name, settings):
        """A replay draw is never called like the current batch; only methods that use memory draw from it."""
        strategy = built(name, settings)

        assert "current" not in strategy.replay
        assert catalog.entry("method", name).uses_memory or not strategy.replay


def strategies_with(function):
    """Return a mark for all cases whose strategy has *function*."""
    return pytest.mark.parametrize(("name", "settings"), [case for case in CASES if getattr(built(*case.values), function)])


def members_in_second_task(strategy, settings):
    """Return the states of three members, with settings of their own."""
    return [after_one_task(strategy, settings, 1 - 0.3 * seed, seed) for seed in range(3)]


@strategies_with("after_task")
class TestTaskEnd:
    """What every strategy that acts at the end of a task has to keep."""

    def test_task_end_of_an_ensemble_equals_members(self, name, settings):
        """States stack: the end of a task under vmap is the end of a task for each member."""
        strategy = built(name, settings)
        states = members_in_second_task(strategy, settings)
        ends = [TaskEnd(params_of(seed + 20), cloned(params_of(seed + 30)), GROUPS) for seed in range(3)]
        alone = stacked([strategy.after_task(*each) for each in zip(states, ends, strict=True)])

        assert_equal(alone, vmap(strategy.after_task)(stacked(states), stacked(ends)), rtol=1e-12, atol=1e-12)


@strategies_with("penalty")
class TestPenalty:
    """What every penalty has to keep."""

    def test_gradient_is_that_of_the_value(self, name, settings):
        """The gradient that a strategy works out itself is autograd's of the value, and so it is under vmap."""
        strategy = built(name, settings)
        states = members_in_second_task(strategy, settings)
        params = [params_of(seed + 1) for seed in range(3)]
        expected = stacked([grad(lambda p, s=s: strategy.penalty(s, p).value)(p) for p, s in zip(params, states, strict=True)])

        assert_equal(expected, vmap(strategy.penalty)(stacked(states), stacked(params)).grads, rtol=1e-12, atol=1e-14)
        assert any(grads.any() for grads in expected.values())

    def test_changes_no_argument(self, name, settings):
        """State and parameters stay as they were."""
        strategy = built(name, settings)
        given = (after_one_task(strategy, settings), params_of(1))
        before = cloned(given)
        strategy.penalty(*given)

        assert_equal(before, given)

    def test_is_free_in_the_first_task(self, name, settings):
        """Before a task has ended the penalty is 0 and pulls at nothing, wherever the parameters are."""
        strategy = built(name, settings)
        penalty = strategy.penalty(strategy.init(params_of(0), member_of(settings)), params_of(1))

        assert float(penalty.value) == 0
        assert not any(pull.any() for pull in penalty.grads.values())

    def test_is_positive_after_a_move(self, name, settings):
        """Away from the anchor the penalty is above 0, at the anchor it is 0."""
        strategy = built(name, settings)
        state = after_one_task(strategy, settings)

        assert float(strategy.penalty(state, params_of(1)).value) > 0
        assert float(strategy.penalty(state, state.anchor).value) == pytest.approx(0, abs=1e-25)

    def test_strength_zero_pulls_at_nothing(self, name, settings):
        """A strength of 0 has a value and a gradient of exactly 0."""
        strategy = built(name, settings)
        penalty = strategy.penalty(after_one_task(strategy, dataclasses.replace(settings, strength=0.0)), params_of(1))

        assert float(penalty.value) == 0
        assert not any(pull.any() for pull in penalty.grads.values())


@strategies_with("after_step")
class TestStepEnd:
    """What every strategy that acts after each step has to keep."""

    def steps(self):
        """Return a step of each of three members."""
        return [StepEnd(params_of(seed), params_of(seed + 10), params_of(seed + 20)) for seed in range(3)]

    def test_ensemble_equals_members(self, name, settings):
        """Under vmap each member gets the state that it gets alone."""
        strategy = built(name, settings)
        states, steps = members_in_second_task(strategy, settings), self.steps()
        whole = (stacked(states), stacked(steps))
        alone = stacked([strategy.after_step(*each) for each in zip(states, steps, strict=True)])

        assert_equal(alone, vmap(strategy.after_step)(*whole), rtol=1e-12, atol=1e-14)

    def test_changes_only_what_it_owns(self, name, settings):
        """Parameters after the step and gradients stay as they were, and the state becomes another one."""
        strategy = built(name, settings)
        state, step = after_one_task(strategy, settings), self.steps()[0]
        old_state, old_step = cloned((state, step))
        after = strategy.after_step(state, step)

        assert_equal((old_step.after, old_step.grads), (step.after, step.grads))
        assert any(not torch.equal(*pair) for pair in zip(*map(pytree.tree_leaves, (after, old_state)), strict=True))


@strategies_with("teacher")
class TestTeacher:
    """What every strategy with a teacher has to keep."""

    def test_is_a_model_that_stands_still(self, name, settings):
        """The teacher has the shapes of the model and does not move with later parameters; asking changes nothing."""
        strategy = built(name, settings)
        params = params_of(0)
        state = after_one_task(strategy, settings)
        told = cloned(strategy.teacher(state))
        end = TaskEnd(params, None, GROUPS)
        later = strategy.after_task(state, end)
        taught = cloned(strategy.teacher(later))
        params["weight"] += 5

        assert_equal(told, strategy.teacher(state))
        assert_equal(taught, strategy.teacher(later))
        assert {key: value.shape for key, value in taught.items()} == {key: value.shape for key, value in params.items()}


@strategies_with("project")
class TestProjection:
    """What every strategy that projects gradients has to keep."""

    def setup_method(self):
        """Draw a gradient, and references of three tasks that all disagree with it."""
        self.grads = params_of(3)
        other = [params_of(seed + 4) for seed in range(3)]
        self.references = {key: torch.stack([each[key] - 2 * self.grads[key] for each in other]) for key in ("weight", "bias")}

    def references_for(self, strategy):
        """Return as many references as the strategy asks for: one batch, or one per task."""
        count = 3 if strategy.reference == Reference(None) else 1
        return {key: value[:count] for key, value in self.references.items()}

    def test_ensemble_equals_members(self, name, settings):
        """Under vmap each member, with its own settings, gets the gradient that it gets alone."""
        strategy = built(name, settings)
        states, references = members_in_second_task(strategy, settings), self.references_for(strategy)
        grads = [{key: factor * value for key, value in self.grads.items()} for factor in (1, -1, 0.1)]
        parts = [(state, each, references) for state, each in zip(states, grads, strict=True)]
        alone = stacked([strategy.project(*part) for part in parts])
        together = vmap(strategy.project)(stacked(states), stacked(grads), stacked([references] * 3))

        assert_equal(alone, together, rtol=1e-9, atol=1e-12)  # two solvers of small systems, single and batched

    def test_changes_no_argument(self, name, settings):
        """State, gradient and references stay as they were."""
        strategy = built(name, settings)
        given = (after_one_task(strategy, settings), self.grads, self.references_for(strategy))
        before = cloned(given)
        projected = strategy.project(*given)

        assert_equal(before, given)
        assert not torch.equal(projected["weight"], self.grads["weight"])

    def test_agreement_changes_nothing(self, name, settings):
        """A gradient that points with every reference stays as it is, bit by bit."""
        strategy = built(name, settings)
        references = {key: -value for key, value in self.references_for(strategy).items()}

        assert_equal(self.grads, strategy.project(after_one_task(strategy, settings), self.grads, references))

    def test_no_entries_change_nothing(self, name, settings):
        """References of tasks without entries, all zeros, leave the gradient as it is, bit by bit."""
        strategy = built(name, settings)
        nothing = {key: torch.zeros_like(value) for key, value in self.references_for(strategy).items()}

        assert_equal(self.grads, strategy.project(after_one_task(strategy, settings), self.grads, nothing))

    def test_no_disagreement_is_left(self, name, settings):
        """After the projection the gradient points against no reference that it has to heed."""
        strategy = built(name, settings)
        references = self.references_for(strategy)
        projected = strategy.project(after_one_task(strategy, settings), self.grads, references)
        along = sum((references[key].flatten(1) @ value.flatten()) for key, value in projected.items())
        heeded = along.mean() if getattr(settings, "constraints", "") == "mean" else along.min()
        length = sum((value**2).sum() for value in references.values())

        assert heeded > -1e-4 * length  # gem's ridge of 1e-6 of the mean diagonal, times a multiplier of a few

    def test_scale_is_followed(self, name, settings):
        """All gradients times 1e-4 give the result times 1e-4: no absolute number swamps small gradients."""
        strategy = built(name, settings)
        state, references = after_one_task(strategy, settings), self.references_for(strategy)
        whole = strategy.project(state, self.grads, references)
        small = ({key: 1e-4 * value for key, value in each.items()} for each in (self.grads, references))

        assert_equal({key: 1e-4 * value for key, value in whole.items()}, strategy.project(state, *small), rtol=1e-9, atol=0)
