"""The contract of a strategy: a named tuple of pure functions for ONE member.

Its state is a named tuple of tensors that is passed in and returned, so it stacks over members, goes through vmap, is saved and
loaded. What varies between members (strength, learning rate) lives in the state, what is fixed in the closure. A strategy never
sees the engine, a file or a logger, and never calls the model: it names the batches it wants and receives their logits.

Shapes: B samples, C head rows; no member axis. `mask` rows are training masks S(x) of each sample's own task.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import Tensor

from contilab.spec.fields import Doc

Params = dict[str, Tensor]
State = Any  # a NamedTuple of tensors (or of Params); `()` for strategies without state

MASKED = -1e9  # a disallowed logit is replaced by this, never added to


class Member(NamedTuple):
    """What is one member's own: its per-member settings by name (as in the manifest), and its base learning rate (eta0).

    Also the shape of what it learns, for states that depend on it: *tasks* (T) and head rows (C).
    """

    values: Mapping[str, float | str]
    lr: float
    tasks: int = 1
    rows: int = 1


class Batch(NamedTuple):
    """One batch as a strategy sees it. weight is 1, or 0 for padding; padding changes nothing.

    *stored*: the raw logits that memory keeps of replayed samples, if the strategy keeps logits. *teacher*: the raw logits of
    the current batch under the parameters of `Strategy.teacher`; absent in the first stage. Both are constants.
    """

    logits: Tensor  # [B, C] raw
    row: Tensor  # [B] int64, the head row of the label
    mask: Tensor  # [B, C] bool
    weight: Tensor  # [B] float
    stored: Tensor | None = None  # [B, C]
    teacher: Tensor | None = None  # [B, C]


class StepEnd(NamedTuple):
    """One step as it was: parameters before and after it, and the gradient of the data loss alone, before any transform."""

    before: Params
    after: Params
    grads: Params


class Penalty(NamedTuple):
    """What a strategy adds to the loss at some parameters, and its gradient there, worked out and not by autograd.

    Penalties run in every step over all parameters: by autograd the springs of ewc take 1.6 times the time.
    """

    value: Tensor  # []
    grads: Params


class TaskEnd(NamedTuple):
    """What a strategy gets at the end of a task: the final parameters and, if it asked, importances shaped like them.

    *groups* [T, C]: the head rows that compete with each other in what was learned so far, a set per line, other lines empty:
    class-incremental the rows seen so far, task-incremental the rows of each task so far, domain-incremental all rows.
    """

    params: Params
    importance: Params | None
    groups: Tensor | None = None  # [T, C] bool


class Importance(NamedTuple):
    """A request for per-sample gradients at the end of each task.

    *terms* maps one sample's logits [C], row, mask [C] and a uniform draw in [0, 1) to values [K] and weights [K]
    (detached); the engine returns `mean_n sum_k weight_k * reduce(grad value_k)` over *samples* training samples without
    replacement (all, if the task has fewer), a mean over samples and never a sum.

    *of_batches*: the mean over batches of the size of training of `reduce(grad mean_n sum_k weight_k value_k)`, as some codes
    have it; its scale is wrong, for parity checks only.
    """

    samples: int
    terms: Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    reduce: Literal["square", "abs"]
    of_batches: bool = False


class Reference(NamedTuple):
    """A request for gradients of the mean cross entropy on memory, in each step from the second task on.

    With a number of *samples*: one draw of so many entries of earlier tasks, all of them while there are fewer. With None: one
    batch per earlier task, all of its entries.
    """

    samples: int | None


class OwnTraining(NamedTuple):
    """The schedule of a method that does not train by that of the preset: *epochs* of batches of *batch* samples.

    *optim*: the optimiser's name and settings, as a table of the manifest. rate(epoch) -> learning rate of that epoch.
    """

    epochs: int
    batch: int
    optim: Mapping[str, Any]
    rate: Callable[[int], float]


Stages = Literal["tasks", "joint", "cumulative", "exemplars", "memory"]

# The setting `head` of replay methods, and the scenarios in which its choices are defined: `Entry.narrowed`.
Head = Annotated[
    Literal["linear", "ncm"],
    Doc("ncm: predict the class whose entries of memory have the nearest mean of features; not domain-incremental"),
]
HEAD_SCENARIOS: Mapping[str, Mapping[str, tuple[str, ...]]] = {"head": {"ncm": ("task", "class")}}


class Strategy(NamedTuple):
    """A method as pure functions, built by `ENTRY.make(settings)`. Everything but *init* and *loss* is optional.

    The data of a step:
    init(params, member) -> state; called once, before the first task.
    loss(state, batches) -> scalar; batches by name: "current", and those named in *replay*.
    replay: names of independent draws from memory, made anew in each step. keeps_logits: memory keeps the logits of the step
    in which a sample arrives. teacher(state) -> the parameters whose logits of the current batch the loss wants, from the
    second stage on; they change at the end of a task only.

    What is made of the gradient, in this order:
    penalty(state, params) -> Penalty, added to the loss from the second stage on; its gradient is kept apart from that of the
    data. reference: gradients on memory that *project* wants. project(state, grads, references) -> grads, from the second
    task on; references [K, *shape] by name. after_step(state, step) -> state; as it runs in every step it owns the state and
    the parameters before the step, and may write into them.

    At the end of each task:
    importance: asked for. after_task(state, end) -> state. notes(state) -> facts for the record, numbers or text by name.

    The stages of training:
    stages: "tasks"; "joint": one stage of all tasks; "cumulative": stage t has the data of tasks 0..t; "exemplars": stage t has
    those of task t and all entries of memory; "memory": the stream only fills memory, and stage t has its entries.
    is_fresh: every stage begins with the initial parameters. training: replaces epochs, batch and optimiser of the preset.
    head: "linear", or "ncm" to predict the nearest mean of the features of memory's entries.
    is_vmappable: all of these functions go through vmap.
    """

    init: Callable[[Params, Member], State]
    loss: Callable[[State, Mapping[str, Batch]], Tensor]
    replay: tuple[str, ...] = ()
    keeps_logits: bool = False
    teacher: Callable[[State], Params] | None = None
    penalty: Callable[[State, Params], Penalty] | None = None
    reference: Reference | None = None
    project: Callable[[State, Params, Params], Params] | None = None
    after_step: Callable[[State, StepEnd], State] | None = None
    importance: Importance | None = None
    after_task: Callable[[State, TaskEnd], State] | None = None
    notes: Callable[[State], dict[str, float | str]] | None = None
    stages: Stages = "tasks"
    is_fresh: bool = False
    training: OwnTraining | None = None
    head: Head = "linear"
    is_vmappable: bool = True


def cross_entropy(batch: Batch) -> Tensor:
    """Return each sample's cross entropy [B] under its own mask."""
    # In operations whose gradients are few: every execution runs them in each step, and the arithmetic costs nothing.
    allowed = batch.logits.masked_fill(~batch.mask, MASKED)
    return -torch.log_softmax(allowed, dim=-1).gather(-1, batch.row[:, None]).squeeze(-1)


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """Return the mean of *values* [B] over samples with weight 1; 0 if there is none."""
    return (values * weight).sum() / weight.sum().clamp(min=1)
