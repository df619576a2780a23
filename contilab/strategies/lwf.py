"""Learning without forgetting: on the samples of the present task the old rows go on answering as they did before it.

Source: Li & Hoiem 2016, "Learning without forgetting", with the Kullback-Leibler divergence in place of the cross entropy
with soft targets, which has the same gradient, and is 0 at the old model.

plain: L = mean_B ce + alpha temperature^2 D,  D = mean_B sum_G KL(p_old, p_new),  p(y; x) = softmax over G of f / temperature
tasks: L = (1/k) mean_B ce + (1 - 1/k) alpha temperature^2 D, k = number of tasks so far (van de Ven et al. 2022)

From the second task on; f_old is the model at the end of the task before. The sets G of rows are those that competed in what
was learned before: class-incremental one set of all old rows, task-incremental one per earlier task, domain-incremental all
rows.

With `rows = "active"` p_new is a softmax over all rows that compete with G in the present task, where p_old is 0: the rows of
new classes too, which are so pushed down on the samples of the task (van de Ven's code; it differs class-incremental only).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor

from contilab.spec.entry import Entry
from contilab.spec.fields import PER_MEMBER, Doc
from contilab.spec.sections import NotNegative, Positive
from contilab.strategies.contract import MASKED, Batch, Member, Params, Strategy, TaskEnd, cross_entropy, weighted_mean


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a manifest may set of learning without forgetting."""

    temperature: Annotated[Positive, Doc("divides the logits of both models, softens their answers"), PER_MEMBER] = 2.0
    alpha: Annotated[NotNegative, Doc("weight of the distance between answers"), PER_MEMBER] = 1.0
    weighting: Annotated[
        Literal["plain", "tasks"], Doc("plain: alpha alone; tasks: current 1/k, distance 1 - 1/k times alpha in task k")
    ] = "plain"
    rows: Annotated[
        Literal["old", "active"], Doc("the new model answers over old rows alone, or over all that compete; class-incremental")
    ] = "old"


class LwfState(NamedTuple):
    """The model at the end of the last task, and the sets of rows that competed until then, one per line, others empty."""

    temperature: Tensor  # []
    alpha: Tensor  # []
    old: Params
    groups: Tensor  # [T, C] bool
    tasks: Tensor  # [] float, the number of tasks so far, the present one included


def lwf(settings: Settings) -> Strategy:
    """Return learning without forgetting.

    Old logits (2, 0), new ones (0, 1): at temperature 2 the term, times its square, is 1.0296, and the label costs 1.3133:

    >>> strategy = lwf(Settings())
    >>> theta = {"w": torch.zeros(1)}
    >>> state = strategy.init(theta, Member({"temperature": 2.0, "alpha": 1.0}, lr=0.1, tasks=1, rows=2))
    >>> state = strategy.after_task(state, TaskEnd(theta, None, torch.tensor([[True, True]])))
    >>> new, old = torch.tensor([[0.0, 1.0]]), torch.tensor([[2.0, 0.0]])
    >>> batch = Batch(new, torch.tensor([0]), torch.tensor([[True, True]]), torch.ones(1), teacher=old)
    >>> round(float(strategy.loss(state, {"current": batch})), 4)  # 1.0296 + log(1 + e)
    2.3429
    """
    weighs = settings.weighting == "tasks"
    is_active = settings.rows == "active"
    return Strategy(
        init=_init,
        loss=lambda state, batches: _loss(state, batches, weighs=weighs, is_active=is_active),
        teacher=lambda state: state.old,
        after_task=_after_task,
    )


def _init(params: Params, member: Member) -> LwfState:
    some = next(iter(params.values()))
    return LwfState(
        temperature=some.new_tensor(float(member.values["temperature"])),
        alpha=some.new_tensor(float(member.values["alpha"])),
        old={name: theta.clone() for name, theta in params.items()},
        groups=torch.zeros(member.tasks, member.rows, dtype=torch.bool, device=some.device),
        tasks=some.new_ones(()),
    )


def _loss(state: LwfState, batches: Mapping[str, Batch], *, weighs: bool, is_active: bool) -> Tensor:
    current = batches["current"]
    loss = weighted_mean(cross_entropy(current), current.weight)
    if current.teacher is None:
        return loss
    distance = _distance(state, current, current.teacher, is_active=is_active)
    return loss / state.tasks + (1 - 1 / state.tasks) * distance if weighs else loss + distance


def _distance(state: LwfState, current: Batch, teacher: Tensor, *, is_active: bool) -> Tensor:
    """Return alpha temperature^2 D, []."""
    competing = _competing(state.groups, current.mask) if is_active else state.groups[:, None]
    distances = divergence(state.groups, teacher / state.temperature, current.logits / state.temperature, competing)
    return state.alpha * state.temperature**2 * weighted_mean(distances, current.weight)


def _competing(groups: Tensor, mask: Tensor) -> Tensor:
    """Return the rows [T, B, C] over which the new model answers for each of *groups* [T, C], *mask* [B, C] being active."""
    own = groups[:, None]
    return torch.where((own & mask).any(-1, keepdim=True), own | mask, own)


def divergence(groups: Tensor, old: Tensor, new: Tensor, competing: Tensor) -> Tensor:
    """Return KL(old, new) of logits [B, C] for each sample [B], one softmax per line of *groups* [T, C], summed; 0 if empty.

    *competing*: the rows of the softmax of the new ones, [T, B or 1, C], those of *groups* at least.
    """
    own = groups[:, None]  # [T, 1, C]
    before = torch.log_softmax(torch.where(own, old, MASKED), -1)
    after = torch.log_softmax(torch.where(competing, new, MASKED), -1)
    return torch.where(own, before.exp() * (before - after), 0.0).sum((0, 2))


def _after_task(state: LwfState, end: TaskEnd) -> LwfState:
    assert end.groups is not None, "a task ends with the rows that were learned"  # noqa: S101 - a fault of ours
    # A copy: an engine that updates parameters in place must not move the old model with them.
    old = {name: theta.clone() for name, theta in end.params.items()}
    return state._replace(old=old, groups=end.groups, tasks=state.tasks + 1)


ENTRY = Entry(
    make=lwf,
    settings=Settings,
    numerics="lwf/1",
    summary=(
        "Keeps the answers of the old model on the samples of the new task. "
        "From the second task on the loss adds alpha times temperature squared times the Kullback-Leibler divergence between "
        "the softened answers of the model at the end of the last task and those of the present one, over the old rows: all in "
        "one softmax in class-incremental learning, one softmax per earlier task in task-incremental learning."
    ),
    paper="Li & Hoiem 2016, Learning without forgetting",
)
