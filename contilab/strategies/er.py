"""Experience replay: every batch is trained together with a batch drawn from memory.

Source: Chaudhry et al. 2019, "On tiny episodic memories in continual learning". With B the current and B' the replayed batch:

concat: L = mean over B and B' together of ce
tasks:  L = (1/k) mean_B ce + (1 - 1/k) mean_B' ce, k = number of tasks so far (van de Ven et al. 2022)

Deviation of `tasks`: while memory has nothing to give, the current batch has all the weight, so that a memory of 0 is naive
training under both weightings. Where tasks mix, k is the nominal task: it grows at the boundary, not when the first sample of
the next task comes.

head = "ncm" trains the same network and predicts the class whose entries of memory have the nearest mean of features, as
iCaRL does (Rebuffi et al. 2017); with other methods than iCaRL that is a choice of contilab.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor

from contilab.spec.entry import Entry
from contilab.spec.fields import Doc
from contilab.strategies.contract import (
    HEAD_SCENARIOS,
    Batch,
    Head,
    Member,
    Params,
    Strategy,
    TaskEnd,
    cross_entropy,
    weighted_mean,
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a manifest may set of experience replay; size and policy of the memory stand in its own table."""

    weighting: Annotated[
        Literal["concat", "tasks"], Doc("concat: one mean over both batches; tasks: current 1/k, replay 1 - 1/k in task k")
    ] = "concat"
    head: Head = "linear"


class ErState(NamedTuple):
    """The number of tasks so far, the present one included."""

    tasks: Tensor  # [] float


def er(settings: Settings) -> Strategy:
    """Return experience replay.

    The current sample costs log 2 and the replayed one log 4, so one mean over both is 1.5 log 2:

    >>> current = Batch(torch.zeros(1, 4), torch.tensor([0]), torch.tensor([[True, True, False, False]]), torch.ones(1))
    >>> replay = current._replace(mask=torch.ones(1, 4, dtype=torch.bool))
    >>> state = ErState(tasks=torch.tensor(2.0))
    >>> round(float(er(Settings()).loss(state, {"current": current, "replay": replay})), 4)
    1.0397
    """
    strategy = Strategy(init=_init, loss=_loss_of_both, replay=("replay",), head=settings.head)
    return strategy if settings.weighting == "concat" else strategy._replace(loss=_loss_by_tasks, after_task=_after_task)


def _init(params: Params, _member: Member) -> ErState:
    return ErState(tasks=next(iter(params.values())).new_ones(()))


def _loss_of_both(_state: ErState, batches: Mapping[str, Batch]) -> Tensor:
    # Two sums instead of one concatenated batch: without a replayed sample this is the very number of naive training.
    current, replay = batches["current"], batches["replay"]
    total = (cross_entropy(current) * current.weight).sum() + (cross_entropy(replay) * replay.weight).sum()
    return total / (current.weight.sum() + replay.weight.sum()).clamp(min=1)


def _loss_by_tasks(state: ErState, batches: Mapping[str, Batch]) -> Tensor:
    current, replay = batches["current"], batches["replay"]
    share = torch.where(replay.weight.sum() > 0, 1 / state.tasks, 1.0)
    loss = share * weighted_mean(cross_entropy(current), current.weight)
    return loss + (1 - share) * weighted_mean(cross_entropy(replay), replay.weight)


def _after_task(state: ErState, _end: TaskEnd) -> ErState:
    return ErState(tasks=state.tasks + 1)


ENTRY = Entry(
    make=er,
    settings=Settings,
    numerics="er/1",
    summary=(
        "Trains every batch together with samples drawn from a replay memory. "
        "Replayed samples keep the mask of their own task; the loss is one mean over both batches, or weighs them by the "
        "number of tasks so far."
    ),
    paper="Chaudhry et al. 2019, On tiny episodic memories in continual learning",
    uses_memory=True,
    narrowed=HEAD_SCENARIOS,
)
