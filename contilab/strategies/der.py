"""Dark experience replay: replayed samples keep the logits that they had when they arrived.

Source: Buzzega et al. 2020, "Dark experience for general continual learning", equation 5. z are the stored logits of all C
rows, f those of the model, B' a draw from memory:

L = mean_B ce + alpha mean_B' (1/C) sum_k (f_k - z_k)^2

The squared error is a mean over rows and samples, as in the authors' code, which fixes the scale of alpha; it takes raw logits.
head = "ncm" trains the same network and predicts the class whose entries of memory have the nearest mean of features.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from torch import Tensor

from contilab.spec.entry import Entry
from contilab.spec.fields import PER_MEMBER, Doc
from contilab.spec.sections import NotNegative
from contilab.strategies.contract import HEAD_SCENARIOS, Batch, Head, Member, Params, Strategy, cross_entropy, weighted_mean
from contilab.strategies.derpp import squared_error


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a manifest may set of dark experience replay."""

    alpha: Annotated[NotNegative, Doc("weight of the squared error between logits and stored logits"), PER_MEMBER] = 0.3
    head: Head = "linear"


class DerState(NamedTuple):
    """The weight of one member."""

    alpha: Tensor  # []


def der(settings: Settings) -> Strategy:
    """Return dark experience replay.

    Logits that are 2 off on each of four rows cost alpha times 4, beside a current sample that costs log 4:

    >>> import torch
    >>> strategy = der(Settings())
    >>> state = strategy.init({"w": torch.zeros(1)}, Member({"alpha": 0.5}, lr=0.1))
    >>> current = Batch(torch.zeros(1, 4), torch.tensor([0]), torch.ones(1, 4, dtype=torch.bool), torch.ones(1))
    >>> replay = current._replace(stored=torch.full((1, 4), 2.0))
    >>> round(float(strategy.loss(state, {"current": current, "replay": replay})), 4)  # log 4 + 2
    3.3863
    """
    return Strategy(init=_init, loss=_loss, replay=("replay",), keeps_logits=True, head=settings.head)


def _init(params: Params, member: Member) -> DerState:
    return DerState(next(iter(params.values())).new_tensor(float(member.values["alpha"])))


def _loss(state: DerState, batches: Mapping[str, Batch]) -> Tensor:
    current = batches["current"]
    return weighted_mean(cross_entropy(current), current.weight) + state.alpha * squared_error(batches["replay"])


ENTRY = Entry(
    make=der,
    settings=Settings,
    numerics="der/1",
    summary=(
        "Replays samples together with the logits they had when they arrived. "
        "The loss adds alpha times the mean squared distance between the logits of replayed samples and the stored ones, over "
        "all rows; labels of replayed samples are not used."
    ),
    paper="Buzzega et al. 2020, Dark experience for general continual learning",
    uses_memory=True,
    memory={"insert": ("every_epoch", "first_epoch")},
    narrowed=HEAD_SCENARIOS,
)
