"""How far predictions lean towards the newest task."""

import numpy as np

from contilab.metrics.contract import Evidence, Metric, Missing
from contilab.metrics.predictions import row_of


def recency_bias(evidence: Evidence) -> float:
    """Return the share of test samples of earlier tasks that are predicted as rows of the newest task.

    Samples whose own row belongs to the newest task (tasks may share rows) are left out.
    """
    newest = np.array((evidence.task_rows or ((),))[-1])
    earlier = sum((evidence.sizes or ())[:-1])
    prediction, target = row_of(evidence, "prediction")[:earlier], row_of(evidence, "target")[:earlier]
    counted = ~np.isin(target, newest)
    if not counted.any():
        raise Missing("every earlier sample has a row of the newest task")
    return float(np.isin(prediction[counted], newest).mean())


RECENCY_BIAS = Metric(
    "recency_bias",
    recency_bias,
    "share of earlier tasks' samples predicted as the newest task",
    ("class_scenario", "stages", "two_tasks", "tensors", "sizes"),
    higher_is_better=False,
)
