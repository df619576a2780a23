"""Dark experience replay: replayed samples keep the logits that they had when they arrived; `derpp` also replays labels.

Source: Buzzega et al. 2020, "Dark experience for general continual learning", equations 5 and 6. z are the stored logits of all
C rows, f those of the model; B' and B'' are independent draws from memory:

der:   L = mean_B ce + alpha mean_B' (1/C) sum_k (f_k - z_k)^2
derpp: L = der + beta mean_B'' ce

The squared error is a mean over rows and samples, as in the authors' code. It takes raw logits: masked ones would be -1e9.
head = "ncm" trains the same network and predicts the class whose entries of memory have the nearest mean of features.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from torch import Tensor

from contilab.spec.entry import Entry
from contilab.spec.fields import PER_MEMBER, Doc
from contilab.spec.sections import NotNegative
from contilab.strategies.contract import (
    HEAD_SCENARIOS,
    Batch,
    Head,
    Member,
    Params,
    Strategy,
    cross_entropy,
    weighted_mean,
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a manifest may set of dark experience replay with labels."""

    alpha: Annotated[NotNegative, Doc("weight of the squared error between logits and stored logits"), PER_MEMBER] = 0.1
    beta: Annotated[NotNegative, Doc("weight of the cross entropy of replayed labels"), PER_MEMBER] = 0.5
    head: Head = "linear"


class DerppState(NamedTuple):
    """The weights of one member."""

    alpha: Tensor  # []
    beta: Tensor  # []


def derpp(settings: Settings) -> Strategy:
    """Return dark experience replay with labels.

    Logits that are 1 off on each of four rows cost alpha, and a replayed label with equal logits beta log 4:

    >>> import torch
    >>> strategy = derpp(Settings())
    >>> state = strategy.init({"w": torch.zeros(1)}, Member({"alpha": 0.5, "beta": 1.0}, lr=0.1))
    >>> mask = torch.ones(1, 4, dtype=torch.bool)
    >>> sure = Batch(torch.tensor([[50.0, 0, 0, 0]]), torch.tensor([0]), mask, torch.ones(1))
    >>> replay = Batch(torch.ones(1, 4), torch.tensor([0]), mask, torch.ones(1), stored=torch.zeros(1, 4))
    >>> loss = strategy.loss(state, {"current": sure, "replay": replay, "labels": replay})
    >>> round(float(loss), 4)  # 0.5 + log 4
    1.8863
    """
    return Strategy(init=_init, loss=_loss, replay=("replay", "labels"), keeps_logits=True, head=settings.head)


def squared_error(batch: Batch) -> Tensor:
    """Return the mean over samples and rows of the squared distance between logits and stored logits, []."""
    assert batch.stored is not None, "memory keeps logits"  # noqa: S101 - a fault of ours
    return weighted_mean((batch.logits - batch.stored).square().mean(-1), batch.weight)


def _init(params: Params, member: Member) -> DerppState:
    scalar = next(iter(params.values())).new_tensor
    return DerppState(scalar(float(member.values["alpha"])), scalar(float(member.values["beta"])))


def _loss(state: DerppState, batches: Mapping[str, Batch]) -> Tensor:
    current, labels = batches["current"], batches["labels"]
    loss = weighted_mean(cross_entropy(current), current.weight) + state.alpha * squared_error(batches["replay"])
    return loss + state.beta * weighted_mean(cross_entropy(labels), labels.weight)


ENTRY = Entry(
    make=derpp,
    settings=Settings,
    numerics="derpp/1",
    summary=(
        "Replays samples together with the logits they had when they arrived, and labels of a second draw. "
        "The loss adds alpha times the mean squared distance to the stored logits of all rows, and beta times the cross "
        "entropy of an independent draw from memory."
    ),
    paper="Buzzega et al. 2020, Dark experience for general continual learning",
    uses_memory=True,
    memory={"insert": ("every_epoch", "first_epoch")},
    narrowed=HEAD_SCENARIOS,
)
