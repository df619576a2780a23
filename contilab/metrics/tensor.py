"""Reading a measurement of the engine from the tensors of a run."""

from collections.abc import Callable
from typing import Any

import numpy as np

from contilab.metrics.contract import Evidence, Missing

RECORDED = (
    "learning_curve",
    "interpolation_loss",
    "gradient_cosine",
    "few_shot_accuracy",
    "probe_accuracy",
    "cka",
    "effective_rank",
    "dormant_share",
    "dead_share",
    "drift",
    "drift_relative",
)  # by the engine; the formulas of all others wait for a run that has measured them


def recorded(evidence: Evidence, name: str, tier: str) -> "np.ndarray[Any, Any]":
    """Return the tensor *name*, nan where it was not measured; Missing if it is not there."""
    found = (evidence.tensors or {}).get(name)
    if found is None:
        reason = (
            f"it needs eval.tier {tier}"
            if name in RECORDED
            else f"it is of the tier {tier}, and the engine does not measure it"
        )
        raise Missing(f"{name} was not recorded: {reason}")
    return np.asarray(found, dtype=np.float64)


def measured(
    evidence: Evidence, name: str, tier: str, part: "Callable[[np.ndarray[Any, Any]], Any]" = lambda whole: whole
) -> "np.ndarray[Any, Any]":
    """Return the *part* that a formula reads of the tensor *name*, whose first axis is stages or tasks.

    Missing if it is not there, or not complete.
    """
    whole = recorded(evidence, name, tier)
    exact = np.asarray(part(whole)) if whole.size else whole
    if not exact.size or np.isnan(exact).any():
        raise Missing(evidence.lost(evidence.last) if evidence.diverged else f"{name} is not defined for this run")
    return exact
