"""Reading what features and parameters were, for metrics that nobody thought of while the run was trained.

A run keeps it in `kept.safetensors` if it is told to. With `eval.keep_features = true`, of the same samples after each stage:

features_tested   float32 [S, N, F]  of up to 1,000 test samples, those that `effective_rank` is measured on
features_learned  float32 [S, M, F]  of up to 1,000 training samples, every so many of those that probes are fitted to
places_tested     int64 [N]          which of the test samples they are: where they stand in `target` and `prediction`
rows_tested, tasks_tested, rows_learned, tasks_learned  int64 [N] or [M], head row and task of each sample
activity          float64 [S, K]     mean absolute activity of each hidden unit on the test samples
activity_layer    int64 [K]          the layer of each unit, from 0 on

With `eval.keep_trajectory = true`:

trajectory.NAME   [S, ...]           the parameter NAME after each stage, that of the end included

Shapes: S stages, N and M samples, F features that enter the head, K units of all layers. A run that diverged has the stages
before; one whose tensors would be larger than contilab keeps has none.
"""

from typing import Any

import numpy as np

from contilab.metrics.contract import Evidence, Missing

TRAJECTORY = "trajectory."  # of parameters after each stage
UNITS = "activity_layer"
OF_FEATURES = (
    *("features_tested", "features_learned", "places_tested", "rows_tested", "tasks_tested", "rows_learned", "tasks_learned"),
    *("activity", UNITS),
)


def kept(evidence: Evidence, name: str) -> "np.ndarray[Any, Any]":
    """Return the tensor *name* of what the run kept, of all its stages; Missing, with the reason, if it is not there.

    >>> matrix = ((1.0, 0.5), (0.5, 1.0))
    >>> kept(Evidence("task", 2, 2, matrix, kept={"features_tested": np.ones((2, 3, 4))}), "features_tested").shape
    (2, 3, 4)
    """
    there = evidence.kept or {}
    if name not in OF_FEATURES and not name.startswith(TRAJECTORY):
        raise Missing(f"nothing that a run keeps has the name {name}")
    found = there.get(name)
    if found is None and name.startswith(TRAJECTORY) and any(other.startswith(TRAJECTORY) for other in there):
        raise Missing(f"the model has no parameter {name.removeprefix(TRAJECTORY)}")
    if found is None:
        setting = "keep_trajectory" if name.startswith(TRAJECTORY) else "keep_features"
        raise Missing(f"{name} was not kept: it needs eval.{setting} = true")
    if evidence.diverged:
        raise Missing(evidence.lost(evidence.last))
    stages = there["activity"] if name == UNITS else found  # without hidden units there is no layer, but there are stages
    if not len(stages):
        raise Missing(f"{name} is not kept of so many tasks, or of so large a model")
    return found
