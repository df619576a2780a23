"""iCaRL: exemplars chosen by herding are learned with each task, old rows from the previous model; prediction by nearest means.

Source: Rebuffi et al. 2017, "iCaRL: Incremental classifier and representation learning". In stage t the training set is D_t and
all exemplars. f are the logits, q the sigmoid outputs of the model at the end of stage t-1, and the sum is over the rows seen:

target_k = q_k for old rows, 1 for the row of the label and 0 for the others among the new ones
L = mean_x sum_k softplus(f_k) - target_k f_k        (binary cross entropy)

At the end of a task m = floor(M / rows seen) exemplars per class are chosen by herding and older lists are cut from their tail;
prediction takes the class whose exemplars have the nearest mean of features. The network goes on from task to task.

Deviations: the optimiser is that of the preset. A row that comes back in a later task is an old row. Task-incremental the sum
is over old rows and those of the sample's own task, so an exemplar says nothing about the rows of the current task.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from contilab.spec.entry import Entry
from contilab.strategies.contract import Batch, Member, Params, Strategy, TaskEnd, weighted_mean


class IcarlState(NamedTuple):
    """The previous model of one member, and the rows that it knows."""

    teacher: Params
    old: Tensor  # [C] bool


def icarl() -> Strategy:
    """Return iCaRL.

    Row 0 is old and its teacher is at 1/2; the label is row 1. Logits of 0 cost log 2 for each of the two rows seen:

    >>> state = IcarlState({}, torch.tensor([True, False, False]))
    >>> mask = torch.tensor([[True, True, False]])
    >>> batch = Batch(torch.zeros(1, 3), torch.tensor([1]), mask, torch.ones(1), teacher=torch.zeros(1, 3))
    >>> round(float(icarl().loss(state, {"current": batch})), 4)  # 2 log 2
    1.3863
    """
    return Strategy(
        init=_init, loss=_loss, teacher=lambda state: state.teacher, after_task=_after_task, stages="exemplars", head="ncm"
    )


def _init(params: Params, member: Member) -> IcarlState:
    some = next(iter(params.values()))
    return IcarlState(
        teacher={name: torch.zeros_like(theta) for name, theta in params.items()},
        old=torch.zeros(member.rows, dtype=torch.bool, device=some.device),
    )


def _loss(state: IcarlState, batches: Mapping[str, Batch]) -> Tensor:
    current = batches["current"]
    seen = current.mask | state.old
    entropy = softplus(current.logits) - _targets(state, current) * current.logits
    return weighted_mean(torch.where(seen, entropy, 0.0).sum(-1), current.weight)


def _targets(state: IcarlState, batch: Batch) -> Tensor:
    """Return the target [B, C] of each row; there is no teacher, and no old row, in the first stage."""
    label = (torch.arange(batch.logits.shape[-1], device=batch.row.device) == batch.row[:, None]).to(batch.logits.dtype)
    return label if batch.teacher is None else torch.where(state.old, batch.teacher.sigmoid(), label)


def _after_task(_state: IcarlState, end: TaskEnd) -> IcarlState:
    assert end.groups is not None, "the engine says which rows are seen"  # noqa: S101 - a fault of ours
    # A copy: an engine that updates parameters in place must not move the teacher with them.
    return IcarlState({name: theta.clone() for name, theta in end.params.items()}, end.groups.any(0))


ENTRY = Entry(
    make=lambda _settings: icarl(),
    numerics="icarl/1",
    summary=(
        "Learns each task together with exemplars of earlier ones and predicts the class with the nearest mean of exemplars. "
        "Exemplars are chosen by herding at the end of a task. The loss is a binary cross entropy per row: old rows keep the "
        "sigmoid outputs of the previous model, new rows learn labels. Predictions have no probability: calibration is absent."
    ),
    paper="Rebuffi et al. 2017, iCaRL: Incremental classifier and representation learning",
    uses_memory=True,
    memory={"policy": ("herding",), "insert": ("task_end",)},
    scenarios=("task", "class"),
)
