"""The contract of a strategy: a named tuple of pure functions for ONE member.

Its state is a named tuple of tensors that is passed in and returned, so it stacks over members, goes through vmap, is saved and
loaded. What varies between members (strength, learning rate) lives in the state, what is fixed in the closure. A strategy never
sees the engine, a file or a logger, and never calls the model: it names the batches it wants and receives their logits.

Shapes: B samples, C head rows; no member axis. `mask` rows are training masks S(x) of each sample's own task.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

Params = dict[str, Tensor]
State = Any  # a NamedTuple of tensors (or of Params); `()` for strategies without state

MASKED = -1e9  # a disallowed logit is replaced by this, never added to


class Member(NamedTuple):
    """What is one member's own: its per-member settings by name (as in the manifest), and its base learning rate (eta0)."""

    values: Mapping[str, float | str]
    lr: float


class Batch(NamedTuple):
    """One batch as a strategy sees it. weight is 1, or 0 for padding; padding changes nothing."""

    logits: Tensor  # [B, C] raw
    row: Tensor  # [B] int64, the head row of the label
    mask: Tensor  # [B, C] bool
    weight: Tensor  # [B] float


class TaskEnd(NamedTuple):
    """What a strategy gets at the end of a task: the final parameters and, if it asked, importances shaped like them."""

    params: Params
    importance: Params | None


class Importance(NamedTuple):
    """A request for per-sample gradients at the end of each task.

    *terms* maps one sample's logits [C], row, mask [C] and a uniform draw in [0, 1) to values [K] and weights [K]
    (detached); the engine returns `mean_n sum_k weight_k * reduce(grad value_k)` over *samples* training samples without
    replacement (all, if the task has fewer), a mean over samples and never a sum.
    """

    samples: int
    terms: Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    reduce: Literal["square", "abs"]


class Strategy(NamedTuple):
    """A method as pure functions, built by `ENTRY.make(settings)`. Everything but *init* and *loss* is optional.

    init(params, member) -> state; called once, before the first task.
    loss(state, batches) -> scalar; batches by name: "current", and those named in *replay*.
    replay: names of independent draws from memory, made anew in each step.
    penalty(state, params) -> scalar, added to the loss (its gradient is kept apart from that of the data).
    importance: asked for at the end of each task. after_task(state, end) -> state.
    notes(state) -> facts for the record, numbers or text by name. stages: "tasks", or "joint" to merge all tasks into one
    stage.
    """

    init: Callable[[Params, Member], State]
    loss: Callable[[State, Mapping[str, Batch]], Tensor]
    replay: tuple[str, ...] = ()
    penalty: Callable[[State, Params], Tensor] | None = None
    importance: Importance | None = None
    after_task: Callable[[State, TaskEnd], State] | None = None
    notes: Callable[[State], dict[str, float | str]] | None = None
    stages: Literal["tasks", "joint"] = "tasks"
    is_vmappable: bool = True


def cross_entropy(batch: Batch) -> Tensor:
    """Return each sample's cross entropy [B] under its own mask."""
    allowed = torch.where(batch.mask, batch.logits, MASKED)
    return torch.logsumexp(allowed, dim=-1) - allowed.gather(-1, batch.row[:, None])[:, 0]


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """Return the mean of *values* [B] over samples with weight 1; 0 if there is none."""
    return (values * weight).sum() / weight.sum().clamp(min=1)
