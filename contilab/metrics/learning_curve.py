"""How fast a task is learned: the area under its first batches (Chaudhry 2019a).

The tensor `learning_curve` float [T, B + 1] holds the accuracy on each task after 0..B of its own batches, under the mask of
that task; nan where not measured. A method that does not train on the stream has [0, B + 1].
"""

from typing import Any

import numpy as np

from contilab.metrics.contract import Evidence, Metric, Missing
from contilab.metrics.tensor import recorded

BATCHES = 10
TENSOR = "learning_curve"


def learning_curve_area(means: "np.ndarray[Any, Any]", batches: int) -> float:
    """Return (1/(beta+1)) sum_{s=0..beta} Z_s (Chaudhry 2019a). means: Z [beta + 1 or more], means over tasks.

    >>> round(learning_curve_area(np.array([0.5, 0.7, 0.8]), 2), 6)
    0.666667
    """
    return float(np.mean(means[: batches + 1]))


def lca_10(evidence: Evidence) -> float:
    """Return the area under the first ten batches, over all tasks."""
    found = recorded(evidence, TENSOR, "extended")[: evidence.tasks, : BATCHES + 1]
    if not len(found):
        raise Missing("no training on the stream")
    if found.shape != (evidence.tasks, BATCHES + 1) or np.isnan(found).any():
        raise Missing(f"not every task has a learning curve of {BATCHES} batches")
    return learning_curve_area(found.mean(axis=0), BATCHES)


LCA_10 = Metric(
    "lca_10",
    lca_10,
    "accuracy on a new task over its first ten batches",
    ("stages", "tensors"),
    paper="Chaudhry 2019a",
    tier="extended",
)
