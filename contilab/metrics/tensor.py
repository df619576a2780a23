"""Reading a measurement of the engine from the tensors of a run."""

from typing import Any

import numpy as np

from contilab.metrics.contract import Evidence, Missing


def recorded(evidence: Evidence, name: str, tier: str) -> "np.ndarray[Any, Any]":
    """Return the tensor *name*, nan where it was not measured; Missing if it is not there."""
    found = (evidence.tensors or {}).get(name)
    if found is None:
        raise Missing(f"{name} was not recorded: it needs eval.tier {tier}")
    return np.asarray(found, dtype=np.float64)


def measured(evidence: Evidence, name: str, tier: str) -> "np.ndarray[Any, Any]":
    """Return the tensor *name*, whose first axis is stages or tasks; Missing if it is not there, or not complete."""
    exact = recorded(evidence, name, tier)
    if not exact.size or np.isnan(exact).any():
        raise Missing(evidence.lost(evidence.last) if evidence.diverged else f"{name} is not defined for this run")
    return exact
