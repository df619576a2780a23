"""What happens within one step, and in which order."""

import torch

from contilab.engine.draws import Draw, Replay
from contilab.engine.executions.loop import gradient
from contilab.engine.setup import initial_members
from contilab.engine.step import clip, make_learn, make_move, owned
from contilab.spec.sections import Memory
from contilab.strategies.contract import cross_entropy


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

    def test_no_sample_is_replayed_in_the_step_in_which_it_arrives(self, make):
        """Replaying slot 0, which this step fills with sample 9, gives the loss of the sample that lay there before."""
        setup = make.setup([make.run(method="er", memory=Memory(total=2, batch=1))])
        member = initial_members(setup)[0]._replace(memory=torch.tensor([5, 6, 0]))
        draw = Draw(torch.tensor([9]), {"replay": Replay(torch.tensor([0]), torch.ones(1))}, (torch.tensor([0]),))
        lesson = setup.lesson(setup.stages[-1])
        grads, loss = make_learn(setup.learner, gradient)(lesson, member, draw)
        after, _ = make_move(setup.learner, gradient)(member, grads, draw)

        assert torch.isclose(loss, losses_alone(setup, lesson, [9, 5]).mean())
        assert after.memory.tolist() == [9, 6, 0]

    def test_a_replayed_sample_carries_the_mask_of_its_own_task(self, make):
        """In task-incremental learning its loss is that of the sample alone under its own mask, not the current one."""
        setup = make.setup([make.run(method="er", scenario="task", memory=Memory(total=2, batch=1))])
        old, new = (int(task.train[0]) for task in setup.stream.tasks[:2])
        member = initial_members(setup)[0]._replace(memory=torch.tensor([old, 0, 0]))
        lesson = setup.lesson(setup.stages[1])
        draw = Draw(torch.tensor([new]), {"replay": Replay(torch.tensor([0]), torch.ones(1))}, ())
        _, loss = make_learn(setup.learner, gradient)(lesson, member, draw)

        assert torch.isclose(loss, losses_alone(setup, lesson, [new, old]).mean())

    def test_clipping_bounds_the_move(self, make):
        """A gradient of norm 100 under clip_norm 0.5 and rate 0.1 moves the member by 0.05."""
        setup = make.setup([make.run(optim=("sgd", {"lr": 0.1, "clip_norm": 0.5}))])
        member = initial_members(setup)[0]
        before = {name: value.clone() for name, value in member.params.items()}
        grads = {name: torch.zeros_like(value) for name, value in before.items()}
        grads["head.bias"][0] = 100.0
        after, _ = make_move(setup.learner, gradient)(member, grads, Draw(torch.tensor([1]), {}, ()))

        assert torch.isclose((after.params["head.bias"] - before["head.bias"]).norm(), torch.tensor(0.05), atol=1e-5)

    def test_padding_changes_nothing(self, make):
        """A replayed sample of weight 0 leaves loss and gradient as they are without it."""
        setup = make.setup([make.run(method="er")])
        learn = make_learn(setup.learner, gradient)
        lesson, member = setup.lesson(setup.stages[0]), initial_members(setup)[0]
        current = torch.tensor([1, 2])
        none = Replay(torch.zeros(0, dtype=torch.int64), torch.zeros(0))
        padding = Replay(torch.zeros(3, dtype=torch.int64), torch.zeros(3))
        (bare, loss), (padded, same) = (learn(lesson, member, Draw(current, {"replay": one}, ())) for one in (none, padding))

        assert torch.isclose(loss, same)
        assert all(torch.allclose(grad, padded[name], atol=1e-7) for name, grad in bare.items())


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


def losses_alone(setup, lesson, index):
    """Return the loss of each sample alone, under the mask of its own task, at the initial weights."""
    from contilab.strategies.contract import Batch

    params = initial_members(setup)[0].params
    samples = torch.tensor(index)
    logits = setup.learner.model.forward(params, {}, lesson.inputs[samples]).logits
    masks = lesson.masks[lesson.tasks[samples]]
    return cross_entropy(Batch(logits, lesson.rows[samples], masks, torch.ones(len(index))))
