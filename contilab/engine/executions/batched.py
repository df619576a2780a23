"""All members in one call, their weights stacked: batched products for linear layers, grouped convolutions for others.

The model runs on all members of a block at once; only the loss of the strategy, on logits, is vmapped. What follows depends on
the stage. Where nothing but the optimiser looks at the gradients of a chain of linear layers, and its update is linear in them,
the backward pass moves the weights while it finds their gradients (`layered`, `folding`). Otherwise gradients go to the usual
second half of a step, as in `vmap`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from contilab.engine.augmentation import shown
from contilab.engine.draws import Draw, unbind
from contilab.engine.ensemble import MemberState, clone, unstack
from contilab.engine.executions.blocks import draws_of_blocks, in_blocks
from contilab.engine.executions.contract import Execution
from contilab.engine.executions.folding import Folding, folding_of
from contilab.engine.executions.head import Changing, Dress, Head, Judges
from contilab.engine.executions.layered import takes
from contilab.engine.executions.lines import Line, lines_of, references_of, targets_of
from contilab.engine.executions.moving import mover
from contilab.engine.executions.parted import Flat
from contilab.engine.executions.passes import Gradients, by_hand, gradients_of, logits_of
from contilab.engine.step import Learned, Learner, Lesson, empty_bin
from contilab.errors import UsageError
from contilab.models.contract import Params
from contilab.strategies.contract import Batch, cross_entropy, weighted_mean


def batched(learner: Learner) -> Execution:
    """Return the batched execution; raises UsageError for a model that does not take members."""
    return batched_by(learner, _as_it_is)


def batched_by(learner: Learner, dress: Dress) -> Execution:
    """Return the batched execution in which *dress* is given the operations of each loss, and returns what runs them."""
    if not learner.model.takes_members:
        raise UsageError("engine.execution", "batched needs a model that takes stacked members", hint="choose loop or vmap")
    trainer = _Trainer(learner, dress)

    def train(blocks: list[MemberState], lesson: Lesson, draws: Draw) -> tuple[list[MemberState], Tensor]:
        parts = draws_of_blocks(draws, [len(block.stored) for block in blocks])
        losses = [trainer.train(block, lesson, part) for block, part in zip(blocks, parts, strict=True)]
        return blocks, torch.cat(losses, dim=1)

    return Execution(gather=in_blocks, scatter=_scatter, train=train)


def _scatter(blocks: list[MemberState]) -> list[MemberState]:
    return [member for block in blocks for member in unstack(block, len(block.stored))]


class _Trainer:
    """Trains one block of members by the steps of a chunk, in place."""

    def __init__(self, learner: Learner, dress: Dress) -> None:
        self.learner = learner
        self.head = Head(learner.strategy.loss, dress)
        self.reference_head = Head(_mean_cross_entropy, dress, has_losses=False)
        self.move = mover(learner)

    def train(self, members: MemberState, lesson: Lesson, draws: Draw) -> Tensor:
        """Move *members* by the steps of *draws*, tensors [S, E, ...], and return their losses [S, E]."""
        folding = folding_of(self.learner, members, lesson, draws) if takes(self.learner.model, members.params) else None
        steps = _Steps(self, members, lesson, draws)
        return steps.by_gradients(unbind(draws)) if folding is None else steps.by_folding(folding)


class _Steps:
    """The steps of one chunk of one block."""

    def __init__(self, trainer: _Trainer, members: MemberState, lesson: Lesson, draws: Draw) -> None:
        self._learner, self._trainer = trainer.learner, trainer
        self._members, self._lesson = members, lesson
        self._current = draws.current.shape[2]
        self._lines = lines_of(draws)
        self._judges = trainer.head.judges(targets_of(lesson, draws))
        self._is_still = not (trainer.learner.strategy.keeps_logits or trainer.learner.strategy.teacher)
        self._state = Changing(members.strategy, {}, None)
        self._taught = self._teacher()
        self._references = references_of(lesson, draws)
        self._no_loss = members.stored.new_zeros(len(members.stored))  # losses are worked out for all steps, at the end

    def by_folding(self, folding: Folding) -> Tensor:
        """Return the losses [S, E] of steps whose gradients are part of the update."""
        members = self._members
        layered = by_hand(self._learner.model, members.params, len(self._lines[0].samples) // len(members.stored))
        for step, line in enumerate(self._lines):
            x = self._gathered(line.samples, line.views)
            logits = layered.forward(x)
            layered.descend(self._judges(step, logits, self._changing(line, x)), folding)
            for slots in line.keep:
                _store(members.stored, slots, logits[:, : self._current])
        return self._judges.losses()

    def by_gradients(self, draws: list[Draw]) -> Tensor:
        """Return the losses [S, E] of steps whose gradients go through the second half of the step."""
        gradients, penalties = gradients_of(self._learner.model, self._members.params), []
        references_at = self._reference_gradients()
        for step, (line, draw) in enumerate(zip(self._lines, draws, strict=True)):
            references = references_at(step)
            learned = self._learned(step, line, gradients)._replace(references=references)
            penalties.append(self._trainer.move(self._lesson, self._members, learned, draw)[1])
        return self._judges.losses() + torch.stack(penalties)

    def _learned(self, step: int, line: Line, gradients: Gradients) -> Learned:
        x = self._gathered(line.samples, line.views)
        found: dict[str, Tensor] = {}

        def judge(logits: Tensor) -> Tensor:
            found["logits"] = logits[:, : self._current if self._learner.strategy.keeps_logits else 0]
            return self._judges(step, logits, self._changing(line, x))

        grads = gradients(self._members.params, x, judge)
        return Learned(grads, self._no_loss, found["logits"], {})

    def _reference_gradients(self) -> Callable[[int], Params]:
        """Return what finds, of a step, the gradients of the mean cross entropy of each reference batch, [E, K, *shape]."""
        references, params = self._references, self._members.params
        if references is None:
            return lambda _step: {}
        judges = self._trainer.reference_head.judges(references.targets)
        gradients = gradients_of(self._learner.model, params)  # in memory of their own, which those of the step do not take
        count = len(references.samples) // len(self._lines)

        def of_one(place: int) -> Params:
            x = self._gathered(references.samples[place], references.views[place])
            return gradients(params, x, partial(_judged, judges, place))

        def at(step: int) -> Params:
            if count == 1:  # nothing to copy, as for agem
                return {name: grad[:, None] for name, grad in of_one(step).items()}
            found = [clone(of_one(place)) for place in range(step * count, (step + 1) * count)]
            return {name: torch.stack([grads[name] for grads in found], dim=1) for name in params}

        return at

    def _changing(self, line: Line, x: Tensor) -> Changing:
        """Return what the batches of a step are judged by that training changes; the same object while it changes nothing."""
        if self._is_still:
            return self._state
        teacher = None if self._taught is None else self._taught(x[:, : self._current])
        stored = {name: self._members.stored.take_along_dim(slots, dim=1) for name, slots in line.slots.items()}
        return Changing(self._members.strategy, stored, teacher)

    def _teacher(self) -> Callable[[Tensor], Tensor] | None:
        """Return what the teacher says of inputs; nothing but the end of a task moves it, so it stays as it is for a chunk."""
        teacher = self._learner.strategy.teacher
        if teacher is None or self._lesson.stage == 0:
            return None
        return logits_of(self._learner.model, torch.func.vmap(teacher)(self._members.strategy))

    def _gathered(self, samples: Tensor, views: tuple[Tensor, ...]) -> Tensor:
        """Return the inputs of *samples* [E * B] as *views* say, [E, B, *shape].

        index_select takes a third of the time of indexing.
        """
        x = self._lesson.inputs.index_select(0, samples)
        for own in views:
            x = shown(x, own)
        return x.view(len(self._members.stored), -1, *x.shape[1:])


def _as_it_is(function: Flat) -> Flat:
    return function


def _judged(judges: Judges, place: int, logits: Tensor) -> Tensor:
    return judges(place, logits, Changing((), {}, None))


def _mean_cross_entropy(_state: Any, batches: Mapping[str, Batch]) -> Tensor:
    [batch] = batches.values()
    return weighted_mean(cross_entropy(batch), batch.weight)


def _store(stored: Tensor, slots: Tensor, logits: Tensor) -> None:
    """Write *logits* [E, B, C] into the *slots* [E, B] of *stored* [E, M, C]; of samples with one slot the last one stays."""
    members, size = stored.shape[:2]
    first = torch.arange(0, members * size, size, device=slots.device)
    stored.view(members * size, -1).index_copy_(0, (slots + first[:, None]).flatten(), logits.flatten(0, 1))
    empty_bin(stored)
