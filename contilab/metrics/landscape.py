"""Where training moves in parameter space, and what lies between: drift, barriers, gradients, and relearning.

The engine measures while parameters and data are there:

drift                  float [S]         norm(theta_i - theta_{i-1}); theta_{-1} are the initial parameters
drift_relative         float [S]         the same divided by norm(theta_{i-1})
interpolation_loss     float [T-1, 11]   loss on task j at u = 0, .1, ..., 1 between theta_j and the end
gradient_cosine        float [S, T, T]   cosines of the mean gradients of tasks i and j after each stage; nan if not seen
few_shot_accuracy      float [T-1]       accuracy on each earlier task after 10 steps on its training data; nan if they diverge
perplexity             float [S + 1]     of the language model before and after each stage

Losses and cosines are those of the mean cross entropy under the mask with which a task is tested by then. Where the parameters
of all tasks are too many to be kept, these two have no line.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from contilab.metrics.contract import Evidence, Metric, Missing
from contilab.metrics.tensor import measured, recorded

NOTHING_LOST = 0.01  # below, the share that comes back is not defined; chosen

Array = np.ndarray[Any, Any]


def loss_barrier(losses: Array) -> float:
    """Return max_u L(u) - ((1-u) L(0) + u L(1)) of *losses* at evenly spaced u from 0 to 1 (Frankle 2020; Mirzadeh 2021).

    >>> loss_barrier(np.array([1.0, 3.0, 2.0]))
    1.5
    """
    u = np.linspace(0, 1, len(losses))
    return float(np.max(losses - ((1 - u) * losses[0] + u * losses[-1])))


def cosine(a: Array, b: Array) -> float:
    """Return the cosine of two gradients; Missing where one of them is zero (Yu 2020).

    >>> cosine(np.array([3.0, 0.0]), np.array([0.0, 1.0]))
    0.0
    """
    scale = float(np.linalg.norm(a) * np.linalg.norm(b))
    if not scale:
        raise Missing("a gradient is zero")
    return float(np.dot(a, b) / scale)


def pairs_of(cosines: Array) -> Array:
    """Return the cosines of all pairs of different tasks [S, T, T] that were measured, each pair once per stage.

    >>> pairs_of(np.array([[[1.0, -0.5], [-0.5, 1.0]]])).tolist()
    [-0.5]
    """
    first, second = np.triu_indices(cosines.shape[-1], 1)
    found: Array = cosines[:, first, second].ravel()
    found = found[~np.isnan(found)]
    if not found.size:
        raise Missing("no two tasks have a gradient")
    return found


def gradients_of(evidence: Evidence) -> Array:
    """Return the cosines of all pairs of tasks begun after each stage; Missing where one is not there."""
    cosines = _kept(evidence, recorded(evidence, "gradient_cosine", "full"))
    if evidence.diverged:
        raise Missing(evidence.lost(evidence.last))
    for stage, own in enumerate(cosines):
        if np.isnan(own[: stage + 1, : stage + 1]).any():
            raise Missing("a gradient is zero")
    return pairs_of(cosines)


def few_shot_recovery(evidence: Evidence) -> float:
    """Return the mean over earlier tasks of (A_10 - R[T-1, j]) / (R[j, j] - R[T-1, j]), where something was lost (chosen)."""
    again = measured(evidence, "few_shot_accuracy", "full")
    shares = []
    for task, value in enumerate(again[: evidence.tasks - 1]):
        end = evidence.cell(evidence.last, task)
        lost = evidence.cell(task, task) - end
        if lost >= NOTHING_LOST:
            shares.append((float(value) - end) / lost)
    if not shares:
        raise Missing("nothing was lost")
    return float(np.mean(shares))


def _metric(name: str, read: Callable[[Evidence], Any], summary: str, **facts: Any) -> Metric:
    described = {"tier": "full", "needs": ("stages", "tensors"), "higher_is_better": None, **facts}
    return Metric(name, lambda e: float(read(e)), summary, **described)


def _kept(evidence: Evidence, lines: Array) -> Array:
    if not len(lines) and evidence.tasks > 1:
        raise Missing("the parameters of so many tasks, or so large ones, are not kept")
    return lines


def _barrier(evidence: Evidence) -> float:
    _kept(evidence, recorded(evidence, "interpolation_loss", "full"))
    return float(np.mean([loss_barrier(row) for row in measured(evidence, "interpolation_loss", "full")]))


_OF_TWO: dict[str, Any] = {"needs": ("stages", "two_tasks", "tensors")}
_BARRIER: dict[str, Any] = {"unit": "nats", "paper": "Frankle 2020; Mirzadeh 2021", "higher_is_better": False, **_OF_TWO}

DRIFT = _metric(
    "drift",
    lambda e: measured(e, "drift", "extended").mean(),
    "distance that a task moves the parameters",
    tier="extended",
    unit="norm",
)
DRIFT_RELATIVE = _metric(
    "drift_relative",
    lambda e: measured(e, "drift_relative", "extended").mean(),
    "drift divided by the norm before",
    tier="extended",
    unit="ratio",
)
LOSS_BARRIER = _metric(
    "loss_barrier",
    _barrier,
    "rise of the loss between the model after a task and the last one",
    **_BARRIER,
)
GRAD_COSINE = _metric(
    "grad_cosine",
    lambda e: gradients_of(e).mean(),
    "cosine of the gradients of two tasks",
    paper="Yu 2020",
    unit="difference",
    **_OF_TWO,
)
INTERFERENCE = _metric(
    "interference",
    lambda e: (gradients_of(e) < 0).mean(),
    "share of pairs of tasks whose gradients oppose each other",
    paper="Yu 2020",
    higher_is_better=False,
    **_OF_TWO,
)
FEW_SHOT_RECOVERY = _metric(
    "few_shot_recovery",
    few_shot_recovery,
    "share of what was lost that ten steps bring back",
    higher_is_better=True,
    unit="ratio",
    **_OF_TWO,
)
PPL_RETENTION = _metric(
    "ppl_retention",
    lambda e: (ppl := measured(e, "perplexity", "extended"))[0] / ppl[-1],
    "perplexity before training divided by that at the end",
    needs=("language_model", "tensors"),  # the last says that a matrix alone does not do
    tier="extended",
    unit="ratio",
    higher_is_better=True,
)
