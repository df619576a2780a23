"""Experience replay with asymmetric cross entropy: the current batch raises and lowers no rows but its own.

Source: Caccia et al. 2022, "New insights on reducing abrupt representation change in online continual learning".

L = mean_B ce(x, y; P) + mean_B' ce(x, y; S(x)), P the rows that are present in B and in the sample's own mask

The replayed samples compete among all rows of their own mask. So new classes do not push old ones away before they have been
learned. The head is linear; others scale a cosine head, let unseen rows into P, and restrict from the second task on only.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from contilab.spec.entry import Entry
from contilab.strategies.contract import HEAD_SCENARIOS, Batch, Head, State, Strategy, cross_entropy, weighted_mean
from contilab.strategies.naive import naive


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a manifest may set of it; size and policy of the memory stand in their own table."""

    head: Head = "linear"


def er_ace(settings: Settings) -> Strategy:
    """Return experience replay with asymmetric cross entropy.

    A batch of rows 0 and 1 costs log 2 per sample though four rows were seen; the replayed sample costs log 4:

    >>> mask = torch.ones(2, 4, dtype=torch.bool)
    >>> current = Batch(torch.zeros(2, 4), torch.tensor([0, 1]), mask, torch.ones(2))
    >>> replay = Batch(torch.zeros(1, 4), torch.tensor([3]), mask[:1], torch.ones(1))
    >>> round(float(er_ace(Settings()).loss((), {"current": current, "replay": replay})), 4)  # 3 log 2
    2.0794
    """
    return Strategy(init=naive().init, loss=_loss, replay=("replay",), head=settings.head)


def _loss(_state: State, batches: Mapping[str, Batch]) -> Tensor:
    current, replay = batches["current"], batches["replay"]
    own = current._replace(mask=current.mask & present(current))
    return weighted_mean(cross_entropy(own), current.weight) + weighted_mean(cross_entropy(replay), replay.weight)


def present(batch: Batch) -> Tensor:
    """Return the rows [C] that samples of *batch* have, padding left out."""
    is_own = batch.row[:, None] == torch.arange(batch.mask.shape[-1], device=batch.row.device)
    return (is_own & (batch.weight > 0)[:, None]).any(0)


ENTRY = Entry(
    make=er_ace,
    settings=Settings,
    numerics="er_ace/1",
    summary=(
        "Replays samples, and lets rows of the current batch compete among themselves only. "
        "The loss is the mean cross entropy of the current batch over the rows that are present in it, plus that of a batch "
        "drawn from memory over all rows of each sample's own mask, so that new classes do not push old ones away."
    ),
    paper="Caccia et al. 2022, New insights on reducing abrupt representation change in online continual learning",
    uses_memory=True,
    narrowed=HEAD_SCENARIOS,
)
