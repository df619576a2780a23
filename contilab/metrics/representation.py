"""What features know and keep: linear probes, similarity of representations, their rank, and units that do nothing.

The engine measures with these functions while the features are there, since features are far larger than what they say:

probe_accuracy  float [S, T]  LP[i, j], test accuracy on task j of a ridge probe of the features after stage i
cka             float [T]     similarity of the features of task j after j and at the end; no line where those are not kept
effective_rank  float [S]     of the features of the same 1,000 samples after each stage
dormant_share   float [S, L]  share of dormant units of each hidden layer after each stage
dead_share      float [S, L]  the same with the threshold 0: of units that are active on no sample

Formulas take the shorter of two ways, which differ in rounding only: by products of features, or of samples where these are
fewer. Shapes: S stages, T tasks, L layers, N samples, D features.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from contilab.metrics.contract import Evidence, Metric, Missing
from contilab.metrics.tensor import measured, recorded

DORMANT = 0.025  # of the mean activity of a layer; chosen, as in Sokar 2023
DEAD = 0.0  # likewise: units that are never active
RIDGE = 1e-3  # of the mean variance of the features; chosen

Array = np.ndarray[Any, Any]


def linear_cka(x: Array, y: Array) -> float:
    """Return norm(Y^T X)^2 / (norm(X^T X) norm(Y^T Y)) of centred columns, Frobenius norms (Kornblith 2019).

    x: [N, D], y: [N, D'], features of the same samples. Missing where one of them is constant.

    >>> x, y = np.array([[1, 0], [0, 1], [1, 1], [2, 0]]), np.array([[1, 1], [0, 2], [2, 1], [1, 0]])
    >>> round(linear_cka(x, y), 6)
    0.717137
    """
    a, b = _centred(x), _centred(y)
    if max(a.shape[1], b.shape[1]) > len(a):  # norm(Y^T X)^2 = <X X^T, Y Y^T>, and norm(X^T X) = norm(X X^T)
        by_x, by_y = a @ a.T, b @ b.T
        shared, scale = np.vdot(by_x, by_y), np.linalg.norm(by_x) * np.linalg.norm(by_y)
    else:
        shared, scale = np.linalg.norm(b.T @ a) ** 2, np.linalg.norm(a.T @ a) * np.linalg.norm(b.T @ b)
    if not scale:
        raise Missing("the features are constant")
    return float(shared / scale)


def effective_rank(features: Array) -> float:
    """Return exp(-sum p ln p), p the singular values of the centred *features* [N, D] as shares (Roy & Vetterli 2007).

    Missing where all features are constant.
    """
    return rank_of(np.linalg.svd(_centred(features), compute_uv=False))


def rank_of(singular_values: Array) -> float:
    """Return the effective rank that *singular_values* have.

    >>> round(rank_of(np.array([3.0, 1.0])), 5), round(rank_of(np.array([2.0, 2.0, 2.0])), 5)
    (1.75477, 3.0)
    """
    total = float(np.sum(singular_values))
    if not total:
        raise Missing("all singular values are 0")
    p = singular_values[singular_values > 0] / total
    return float(np.exp(-np.sum(p * np.log(p))))


def dormant_share(activity: Array, threshold: float = DORMANT) -> float:
    """Return the share of units whose mean absolute *activity* [units] is at most *threshold* of the layer's mean (Sokar 2023).

    A layer that is all zero counts as 1.

    >>> dormant_share(np.array([0.5, 0.0, 0.01, 1.49]))
    0.5
    """
    mean = float(np.mean(activity))
    return float(np.mean(activity / mean <= threshold)) if mean else 1.0


def ridge_probe(features: Array, labels: Array, classes: int) -> tuple[Array, Array]:
    """Return weights [D, classes] and offsets [classes] of a ridge regression on one-hot *labels* [N] (Alain & Bengio 2017).

    The penalty is 1e-3 tr(X^T X)/d of the centred *features* [N, D]; offsets are not penalised.

    >>> weights, offsets = ridge_probe(np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1]), 2)
    >>> (np.array([[0.5], [2.5]]) @ weights + offsets).argmax(axis=1).tolist()
    [0, 1]
    """
    x, target = _centred(features), np.eye(classes)[labels]
    aim = target - target.mean(axis=0)
    has_few = len(x) < x.shape[1]  # samples: X^T (X X^T + c)^-1 = (X^T X + c)^-1 X^T
    gram = x @ x.T if has_few else x.T @ x
    penalty = RIDGE * np.trace(gram) / x.shape[1]
    if not penalty:
        raise Missing("the features are constant")
    gram[np.diag_indices_from(gram)] += penalty
    weights = x.T @ np.linalg.solve(gram, aim) if has_few else np.linalg.solve(gram, x.T @ aim)
    return weights, target.mean(axis=0) - np.mean(features, axis=0, dtype=np.float64) @ weights


def representation_forgetting(probes: Array) -> float:
    """Return mean_{j<T-1} (LP[j, j] - LP[T-1, j]) of *probes* [T, T] (Davari 2022).

    >>> round(representation_forgetting(np.array([[0.9, 0.5], [0.8, 0.9]])), 6)
    0.1
    """
    return float(np.mean(_lost(probes)))


def _lost(probes: Array) -> Array:
    lost: Array = (np.diag(probes) - probes[-1])[:-1]
    return lost


def _centred(values: Array) -> Array:
    exact: Array = np.asarray(values, dtype=np.float64)
    centred: Array = exact - exact.mean(axis=0)
    return centred


def _metric(
    name: str,
    tensor: str,
    part: Callable[[Array], Any],
    summary: str,
    *needs: str,
    if_empty: str = "",
    older: str = "",
    **facts: Any,
) -> Metric:
    """Return the metric *name*: the mean of the *part* of a *tensor*, of which everything must be defined.

    *if_empty*: why a run that did not diverge has a tensor without numbers.
    *older*: a tensor that was recorded before this one was, so that a run may have it alone.
    """

    def function(evidence: Evidence) -> float:
        held = evidence.tensors or {}
        if older and older in held and tensor not in held:
            raise Missing(f"{tensor} was not recorded: the run was trained before it was measured")
        if if_empty and not evidence.diverged and not recorded(evidence, tensor, "extended").size:
            raise Missing(if_empty)
        return float(measured(evidence, tensor, "extended", part).mean())

    return Metric(name, function, summary, (*needs, "tensors"), tier="extended", **facts)


_DAVARI: dict[str, Any] = {"unit": "difference", "paper": "Davari 2022", "higher_is_better": False}

PROBE_ACC = _metric(
    "probe_acc",
    "probe_accuracy",
    lambda probes: probes[-1],
    "accuracy of a linear probe of the features at the end",
    paper="Alain & Bengio 2017",
)
REPRESENTATION_FORGETTING = _metric(
    "representation_forgetting",
    "probe_accuracy",
    _lost,
    "what linear probes lose on earlier tasks",
    "stages",
    "two_tasks",
    **_DAVARI,
)
CKA_FINAL = _metric(
    "cka_final",
    "cka",
    lambda cka: cka[:-1],
    "similarity of the features of a task after it and at the end",
    "stages",
    "two_tasks",
    if_empty="the features of so many tasks are not kept",
    paper="Kornblith 2019",
)
EFFECTIVE_RANK = _metric(
    "effective_rank",
    "effective_rank",
    lambda ranks: ranks[-1],
    "effective rank of the features at the end",
    unit="ranks",
    paper="Roy & Vetterli 2007",
    higher_is_better=None,
)
DORMANT_SHARE = _metric(
    "dormant_share",
    "dormant_share",
    lambda shares: shares[-1],
    "share of dormant units at the end, averaged over layers",
    if_empty="no hidden units",
    paper="Sokar 2023",
    higher_is_better=False,
)
DEAD_SHARE = _metric(
    "dead_share",
    "dead_share",
    lambda shares: shares[-1],
    "share of units that are never active at the end, averaged over layers",
    if_empty="no hidden units",
    older="dormant_share",
    paper="Sokar 2023",
    higher_is_better=False,
)
