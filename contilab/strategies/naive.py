"""Naive: plain training on one task after the other; the lower bound of every study.

L = mean_B ce(x, y; S(x)).
"""

from collections.abc import Mapping

from torch import Tensor

from contilab.spec.entry import Entry
from contilab.strategies.contract import Batch, Member, Params, State, Strategy, cross_entropy, weighted_mean


def naive() -> Strategy:
    """Return plain training, without state.

    Four equal logits of which two are allowed cost log 2:

    >>> import torch
    >>> mask = torch.tensor([[True, True, False, False]])
    >>> batch = Batch(logits=torch.zeros(1, 4), row=torch.tensor([1]), mask=mask, weight=torch.ones(1))
    >>> round(float(naive().loss((), {"current": batch})), 4)
    0.6931
    """
    return Strategy(init=_init, loss=_loss)


def _init(_params: Params, _member: Member) -> State:
    return ()


def _loss(_state: State, batches: Mapping[str, Batch]) -> Tensor:
    current = batches["current"]
    return weighted_mean(cross_entropy(current), current.weight)


ENTRY = Entry(
    make=lambda _settings: naive(),
    numerics="naive/1",
    summary=(
        "Trains on one task after the other and does nothing against forgetting. "
        "The loss is the mean cross entropy of the current batch under the mask of the scenario; it is the lower bound."
    ),
)
