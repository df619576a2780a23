"""Metrics: pure functions of what a run left. `from_matrix` is the door for notebooks."""

from contilab.metrics.contract import Absent
from contilab.metrics.matrix import from_matrix

__all__ = ["Absent", "from_matrix"]
