"""How honest confidences are: the expected calibration error."""

from typing import Any

import numpy as np

from contilab.metrics.contract import Evidence, Metric, Missing
from contilab.metrics.predictions import row_of

BINS = 15  # chosen, as in Guo 2017


def calibration_error(confidence: "np.ndarray[Any, Any]", is_hit: "np.ndarray[Any, Any]") -> float:
    """Return sum_k (n_k/N) abs(acc_k - conf_k) over 15 equal bins (k/15, (k+1)/15] (Guo 2017).

    confidence: [N] in 0 to 1; is_hit: [N], 1 where the prediction was right.

    >>> round(calibration_error(np.array([0.95, 0.85, 0.85, 0.65, 0.55]), np.array([1, 1, 0, 0, 1])), 6)
    0.37
    """
    exact = np.asarray(confidence, dtype=np.float64)  # float32 would move values that sit on the edge of a bin
    bins = np.clip(np.ceil(exact * BINS).astype(int) - 1, 0, BINS - 1)
    gaps = np.bincount(bins, weights=np.asarray(is_hit, dtype=np.float64) - exact, minlength=BINS)
    return float(np.abs(gaps).sum() / exact.size)


def ece(evidence: Evidence) -> float:
    """Return the calibration error over the test samples of the tasks seen, after the last of them."""
    confidence = row_of(evidence, "confidence")
    if not np.isfinite(confidence).all():
        raise Missing("the head gives no probabilities")
    prediction, target = row_of(evidence, "prediction"), row_of(evidence, "target")
    return calibration_error(confidence, prediction == target)


ECE = Metric(
    "ece", ece, "expected calibration error of the confidences", ("tensors", "sizes"), paper="Guo 2017", higher_is_better=False
)
