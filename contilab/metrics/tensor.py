"""Reading a measurement of the engine from the tensors of a run."""

from typing import Any

import numpy as np

from contilab.metrics.contract import Evidence, Missing


def measured(evidence: Evidence, name: str, tier: str) -> "np.ndarray[Any, Any]":
    """Return the tensor *name*, whose first axis is stages or tasks; Missing if it is not there, or not complete."""
    found = (evidence.tensors or {}).get(name)
    if found is None:
        raise Missing(f"{name} was not recorded: it needs eval.tier {tier}")
    exact = np.asarray(found, dtype=np.float64)
    if not exact.size or np.isnan(exact).any():
        raise Missing(evidence.lost(evidence.last) if evidence.diverged else f"{name} is not defined for this run")
    return exact
