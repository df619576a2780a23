"""The predictions of one run, as the metrics read them: the row after the last stage, over the tasks seen."""

from typing import Any

import numpy as np

from contilab.metrics.contract import Evidence, Missing


def row_of(evidence: Evidence, name: str) -> "np.ndarray[Any, Any]":
    """Return the tensor *name* after the last stage, for the test samples of the tasks seen; targets have one row.

    Missing if the row was lost or was not measured on all of these samples.
    """
    tensors, seen = evidence.tensors or {}, sum(evidence.sizes or ())
    if name not in tensors:
        raise Missing("the head gives no probabilities" if name == "confidence" else f"{name} was not recorded")
    if "prediction" not in tensors:
        raise Missing("prediction was not recorded")
    if name == "target":
        return tensors[name][:seen]
    if evidence.stages >= len(tensors[name]):
        raise Missing(evidence.lost(evidence.last))
    if np.any(tensors["prediction"][evidence.stages, :seen] < 0):
        raise Missing(evidence.lost(evidence.last))
    return tensors[name][evidence.stages, :seen]  # row 0 is the untrained model
