"""All members in one call, their weights stacked: batched products for linear layers, grouped convolutions for others.

The model runs on all members of a block at once; only the loss of the strategy, on logits, is vmapped. What follows depends on
the stage. Where nothing but the optimiser looks at the gradient of a chain of linear layers, and its update is linear in it,
the backward pass moves the weights while it finds their gradients (`layered`). Otherwise gradients go to the usual second half
of a step, as in `vmap`.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from contilab.engine.draws import Draw, unbind
from contilab.engine.ensemble import MemberState, clone, unstack
from contilab.engine.executions.blocks import draws_of_blocks, in_blocks
from contilab.engine.executions.contract import Execution
from contilab.engine.executions.head import Head, Said, loss_of
from contilab.engine.executions.layered import Layered, factors_of
from contilab.engine.executions.lines import Line, extras_of, lines
from contilab.engine.executions.passes import passes_of
from contilab.engine.executions.vmap import mover
from contilab.engine.step import Extra, Learned, Learner, Lesson, batches_of
from contilab.errors import UsageError
from contilab.models.contract import Params
from contilab.optim.contract import Fold
from contilab.strategies.contract import cross_entropy, weighted_mean


def batched(learner: Learner) -> Execution:
    """Return the batched execution; raises UsageError for a model that does not take members."""
    if not learner.model.takes_members:
        raise UsageError("engine.execution", "batched needs a model that takes stacked members", hint="choose loop or vmap")
    trainer = _Trainer(learner)

    def train(blocks: list[MemberState], lesson: Lesson, draws: Draw) -> tuple[list[MemberState], Tensor]:
        parts = draws_of_blocks(draws, [len(block.stored) for block in blocks])
        pairs = [trainer.train(block, lesson, part) for block, part in zip(blocks, parts, strict=True)]
        return [block for block, _ in pairs], torch.cat([losses for _, losses in pairs], dim=1)

    return Execution(gather=in_blocks, scatter=_scatter, train=train)


def _scatter(blocks: list[MemberState]) -> list[MemberState]:
    return [member for block in blocks for member in unstack(block, len(block.stored))]


class _Trainer:
    """Trains one block of members by the steps of a chunk."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._passes = passes_of(learner.model)
        self._head = Head(loss_of(learner.strategy.loss))
        self._reference_head = Head(_mean_cross_entropy)
        self._move = mover(learner)

    def train(self, members: MemberState, lesson: Lesson, draws: Draw) -> tuple[MemberState, Tensor]:
        """Return the members after the steps of *draws*, tensors [S, E, ...], and the losses [S, E]."""
        layered, fold = self._passes.layered, folding(self._learner, members, lesson, draws)
        if layered is None or fold is None:
            return self._by_gradients(members, lesson, draws)
        return members, self._by_folding(members, lesson, draws, layered, fold)

    def _by_folding(self, members: MemberState, lesson: Lesson, draws: Draw, layered: Layered, fold: Fold) -> Tensor:
        factors, losses = factors_of(fold), []
        for line in lines(lesson, draws):
            x = _gathered(lesson.inputs, line.samples)
            logits = layered.forward(members.params, x)
            d, loss = self._head(logits, self._said(lesson, members, line, x))
            layered.descend(members.params, fold.into, factors, d)
            for slots in line.keep:
                _store(members.stored, slots, logits[:, : slots.shape[1]])
            losses.append(loss)
        return torch.stack(losses)

    def _by_gradients(self, members: MemberState, lesson: Lesson, draws: Draw) -> tuple[MemberState, Tensor]:
        losses = []
        for line, draw in zip(lines(lesson, draws), unbind(draws), strict=True):
            learned = self._learn(lesson, members, line, draw)
            members, penalty = self._move(lesson, members, learned, draw)
            losses.append(learned.loss + penalty)
        return members, torch.stack(losses)

    def _learn(self, lesson: Lesson, members: MemberState, line: Line, draw: Draw) -> Learned:
        references = self._references(lesson, members.params, draw)  # first: gradients last until the next ones only
        x = _gathered(lesson.inputs, line.samples)
        found: dict[str, Tensor] = {}

        def judge(logits: Tensor) -> Tensor:
            d, found["loss"] = self._head(logits, self._said(lesson, members, line, x))
            found["logits"] = logits[:, : draw.current.shape[1] if self._learner.strategy.keeps_logits else 0]
            return d

        grads = self._passes.gradients(members.params, x, judge)
        return Learned(grads, found["loss"], found["logits"], references)

    def _said(self, lesson: Lesson, members: MemberState, line: Line, x: Tensor) -> Said:
        strategy, teacher = self._learner.strategy, None
        if strategy.teacher is not None and lesson.stage > 0:
            params: Params = torch.func.vmap(strategy.teacher)(members.strategy)
            teacher = self._learner.model.forward(params, {}, x[:, : line.weights["current"].shape[1]]).logits.detach()
        return Said(members.strategy, line.row, line.mask, extras_of(line, members.stored, teacher))

    def _references(self, lesson: Lesson, params: Params, draw: Draw) -> Params:
        """Return the gradients of the mean cross entropy of each reference batch, [E, K, *shape] by name."""
        found: list[Params] = []
        for reference in draw.references:
            for index, weight in zip(reference.samples.unbind(1), reference.weight.unbind(1), strict=True):
                said = Said((), lesson.rows[index], lesson.masks[lesson.tasks[index]], {"reference": Extra(weight)})
                judge = partial(self._judged, said)
                found.append(clone(self._passes.gradients(params, _gathered(lesson.inputs, index), judge)))
        return {name: torch.stack([grads[name] for grads in found], dim=1) for name in params} if found else {}

    def _judged(self, said: Said, logits: Tensor) -> Tensor:
        return self._reference_head(logits, said)[0]


def folding(learner: Learner, members: MemberState, lesson: Lesson, draws: Draw) -> Fold | None:
    """Return how updates fold into products where nothing but the optimiser looks at gradients; None elsewhere."""
    strategy, optimiser = learner.strategy, learner.optimiser
    is_looked_at = (
        strategy.after_step is not None
        or (strategy.penalty is not None and lesson.stage > 0)
        or (strategy.project is not None and bool(draws.references))
        or optimiser.clip_norm is not None
    )
    return None if is_looked_at or optimiser.fold is None else optimiser.fold(members.params, members.optimiser)


def _mean_cross_entropy(_state: Any, logits: Tensor, row: Tensor, mask: Tensor, parts: Mapping[str, Extra]) -> Tensor:
    [batch] = batches_of(logits, row, mask, parts).values()
    return weighted_mean(cross_entropy(batch), batch.weight)


def _gathered(inputs: Tensor, samples: Tensor) -> Tensor:
    """Return the inputs of *samples* [E, B], [E, B, *shape]; a third of the time that indexing takes."""
    return inputs.index_select(0, samples.flatten()).view(*samples.shape, *inputs.shape[1:])


def _store(stored: Tensor, slots: Tensor, logits: Tensor) -> None:
    """Write *logits* [E, B, C] into the *slots* [E, B] of *stored* [E, M, C]; of samples with one slot the last one stays."""
    members, size = stored.shape[:2]
    first = torch.arange(0, members * size, size, device=slots.device)
    stored.view(members * size, -1).index_copy_(0, (slots + first[:, None]).flatten(), logits.flatten(0, 1))
