"""What happens within one step, and in which order."""

import pytest
import torch

from contilab.engine.draws import Draw, Replay
from contilab.engine.executions.loop import gradient
from contilab.engine.setup import initial_members
from contilab.engine.step import Learned, clip, make_learn, make_move, owned
from contilab.spec.sections import Memory
from contilab.strategies.contract import Penalty, cross_entropy


class TestClip:
    """Clipping by the member's own norm."""

    def test_scales_a_long_gradient_to_the_limit(self):
        """(3, 4) over two parameters has norm 5 and is scaled to norm 1."""
        clipped = clip({"a": torch.tensor([3.0]), "b": torch.tensor([4.0])}, 1.0)

        assert torch.allclose(torch.cat(list(clipped.values())), torch.tensor([0.6, 0.8]), atol=1e-6)

    def test_leaves_a_short_gradient(self):
        """A norm below the limit changes nothing."""
        grads = {"a": torch.tensor([0.3, 0.4])}

        assert torch.equal(clip(grads, 1.0)["a"], grads["a"])


class TestStep:
    """The step of one member."""

    def test_logits_are_kept_after_the_replay(self, make):
        """Memory shows the logits that lay in a slot before the step, and then keeps those of the step's forward pass."""
        setup = make.setup([make.run(method="derpp", memory=Memory(total=2, batch=1))])
        member = initial_members(setup)[0]
        before = member._replace(stored=torch.full_like(member.stored, 3.0))
        lesson, draw = setup.lesson(setup.stages[-1]), a_draw([9], replay=[5], slots=[0], keep=[0])
        learned = make_learn(setup.learner, gradient)(lesson, before, draw)
        after, _ = make_move(setup.learner)(lesson, before, learned, draw)
        logits = setup.learner.model.forward(initial_members(setup)[0].params, {}, lesson.inputs[[9]]).logits

        assert torch.allclose(after.stored[0], logits[0])
        assert (after.stored[1:] == 3.0).all()

    def test_a_replayed_sample_carries_the_mask_of_its_own_task(self, make):
        """In task-incremental learning its loss is that of the sample alone under its own mask, not the current one."""
        setup = make.setup([make.run(method="er", scenario="task", memory=Memory(total=2, batch=1))])
        old, new = (int(task.train[0]) for task in setup.stream.tasks[:2])
        lesson = setup.lesson(setup.stages[1])
        learned = make_learn(setup.learner, gradient)(lesson, initial_members(setup)[0], a_draw([new], replay=[old]))

        assert torch.isclose(learned.loss, losses_alone(setup, lesson, [new, old]).mean())

    def test_clipping_bounds_the_move(self, make):
        """A gradient of norm 100 under clip_norm 0.5 and rate 0.1 moves the member by 0.05."""
        setup = make.setup([make.run(optim=("sgd", {"lr": 0.1, "clip_norm": 0.5}))])
        member = initial_members(setup)[0]
        before = {name: value.clone() for name, value in member.params.items()}
        grads = {name: torch.zeros_like(value) for name, value in before.items()}
        grads["head.bias"][0] = 100.0
        learned = Learned(grads, torch.zeros(()), torch.zeros(0), {})
        after, _ = make_move(setup.learner)(setup.lesson(setup.stages[0]), member, learned, a_draw([1]))

        assert torch.isclose((after.params["head.bias"] - before["head.bias"]).norm(), torch.tensor(0.05), atol=1e-5)

    def test_padding_changes_nothing(self, make):
        """A replayed sample of weight 0 leaves loss and gradient as they are without it."""
        setup = make.setup([make.run(method="er")])
        learn = make_learn(setup.learner, gradient)
        lesson, member = setup.lesson(setup.stages[0]), initial_members(setup)[0]
        current = torch.tensor([1, 2])
        none = Replay(torch.zeros(0, dtype=torch.int64), torch.zeros(0))
        padding = Replay(torch.zeros(3, dtype=torch.int64), torch.zeros(3))
        bare, padded = (learn(lesson, member, Draw(current, {"replay": one})) for one in (none, padding))

        assert torch.isclose(bare.loss, padded.loss)
        assert all(torch.allclose(grad, padded.grads[name], atol=1e-7) for name, grad in bare.grads.items())


@pytest.mark.parametrize(("optim", "clip_norm"), [("sgd", "off"), ("sgd", 0.5), ("adam", "off"), ("adam", 0.5)])
@pytest.mark.parametrize("stage", [0, 1])
class TestStepEnd:
    """What a strategy is told of a step that is done."""

    def test_is_the_step_as_it_was(self, make, optim, clip_norm, stage):
        """Parameters before and after, and the gradient of the data alone, unclipped, though optimisers write into theirs."""
        setup = make.setup([make.run(method="si", optim=(optim, {"lr": 0.1, "clip_norm": clip_norm}))])
        told = []
        strategy = setup.learner.strategy._replace(
            after_step=lambda state, end: (told.append(end), state)[1],
            penalty=lambda _state, params: Penalty(torch.ones(()), {name: torch.ones_like(p) for name, p in params.items()}),
        )
        learner = setup.learner._replace(strategy=strategy)
        member = initial_members(setup)[0]
        before = {name: value.clone() for name, value in member.params.items()}
        grads = {name: torch.full_like(value, 2.0) for name, value in before.items()}
        learned = Learned(grads, torch.zeros(()), torch.zeros(0), {})
        after, penalty = make_move(learner)(setup.lesson(setup.stages[stage]), member, learned, a_draw([1]))
        [end] = told

        assert all(torch.equal(end.before[name], value) for name, value in before.items())
        assert all((value == 2).all() for value in end.grads.values())
        assert all(end.after[name] is value for name, value in after.params.items())
        assert float(penalty) == stage
        if optim == "sgd":
            moved = torch.cat([(end.after[name] - value).flatten() for name, value in before.items()])
            slope = 2 + stage if clip_norm == "off" else clip_norm / len(moved) ** 0.5
            assert torch.allclose(moved, torch.tensor(-0.1 * slope), atol=1e-6)


class TestOwned:
    """Gradients that share no memory."""

    def test_parts_what_autograd_shares(self):
        """One gradient for two parameters, its transpose, and an expanded one: after zeroing the first, the others stand."""
        shared = torch.ones(2, 2)
        grads = owned({"a": shared, "b": shared, "c": shared.T, "d": torch.ones(1).expand(3)})
        grads["a"].zero_()

        assert [float(grads[name].sum()) for name in "abcd"] == [0, 4, 4, 3]
        assert grads["d"].is_contiguous()

    def test_leaves_what_is_alone(self):
        """A gradient with memory of its own is not copied."""
        grads = {"a": torch.ones(2), "b": torch.ones(2)}

        assert all(owned(grads)[name] is grad for name, grad in grads.items())


def a_draw(current, *, replay=None, slots=None, keep=None):
    """Return a draw of these samples, with those that are replayed, where their logits lie, and where new ones go."""
    places = () if slots is None else (torch.tensor(slots),)
    drawn = {} if replay is None else {"replay": Replay(torch.tensor(replay), torch.ones(len(replay)), places)}
    if keep is not None and drawn:
        drawn["labels"] = drawn["replay"]
    return Draw(torch.tensor(current), drawn, () if keep is None else (torch.tensor(keep),))


def losses_alone(setup, lesson, index):
    """Return the loss of each sample alone, under the mask of its own task, at the initial weights."""
    from contilab.strategies.contract import Batch

    params = initial_members(setup)[0].params
    samples = torch.tensor(index)
    logits = setup.learner.model.forward(params, {}, lesson.inputs[samples]).logits
    masks = lesson.masks[lesson.tasks[samples]]
    return cross_entropy(Batch(logits, lesson.rows[samples], masks, torch.ones(len(index))))
