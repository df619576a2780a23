"""The evaluation stream: accuracy on each task again and again while later tasks are learned.

The stream of a run with K evaluations of T tasks, as tensors of its result:

stream_accuracy  float [K, T]  accuracy on a fixed subset of the test samples of each task; nan where not measured
stream_task      int   [K]     the task that is being trained
stream_step      int   [K]     steps of that task taken so far; 0 at the switch
stream_old_mask  bool  [K]     true for the evaluation at a switch under the mask of before it

A method that does not train on one task after the other has a stream of no evaluation (K = 0).

Evaluations are in the order of training. Step 0 of each later task is evaluated twice, under the old and the new mask, so
the drop that opening new rows causes is separable; the first of the two is what was there before the switch, the second
counts as the first evaluation of the new task. Minima depend on the schedule: values of different schedules are never
compared.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from contilab.metrics.contract import Evidence, Missing

TENSORS = ("stream_accuracy", "stream_task", "stream_step", "stream_old_mask")

Array = np.ndarray[Any, Any]


class Stream(NamedTuple):
    """*accuracy* [K, T], *task* [K], *step* [K] and *is_old_mask* [K] of K evaluations, in the order of training."""

    accuracy: Array
    task: Array
    step: Array
    is_old_mask: Array

    @property
    def tasks(self) -> int:
        """How many tasks were begun."""
        return int(self.task[-1]) + 1

    def rows(self, on: int, tasks: range) -> Array:
        """Return the evaluations of task *on* while *tasks* were trained, the second one of each switch only."""
        return self._measured(on, (self.task >= tasks.start) & (self.task < tasks.stop) & ~self.is_old_mask)

    def series(self, on: int, tasks: range) -> Array:
        """Return the accuracies on task *on* at `rows`."""
        return np.asarray(self.accuracy[self.rows(on, tasks), on], dtype=np.float64)

    def before(self, on: int, switch: int) -> float:
        """Return the accuracy on task *on* when task *switch* began, under the mask of before; else that of the last step."""
        at_switch = (self.task == switch) & self.is_old_mask
        if at_switch.any():
            return float(self.accuracy[self._measured(on, at_switch)[-1], on])
        return self.end(on, switch - 1)

    def end(self, on: int, of: int) -> float:
        """Return the last accuracy on task *on* while task *of* was trained."""
        return float(self.series(on, range(of, of + 1))[-1])

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield (earlier task, task that is learned) for each switch and each task before it."""
        return ((on, switch) for switch in range(1, self.tasks) for on in range(switch))

    def _measured(self, on: int, chosen: Array) -> Array:
        found = np.flatnonzero(chosen & ~np.isnan(self.accuracy[:, on]))
        if not found.size:
            raise Missing(f"the stream holds no evaluation of task {on} where one is needed")
        return found


def stream_of(evidence: Evidence) -> Stream:
    """Return the evaluation stream of a run; Missing if there is none, or if it ended early."""
    found = stream_from(evidence.tensors or {})
    if evidence.diverged or found.tasks < evidence.tasks:
        raise Missing(evidence.lost(found.tasks))
    return found


def stream_from(tensors: Mapping[str, Array]) -> Stream:
    """Return the evaluation stream that *tensors* hold; Missing if there is none."""
    if any(name not in tensors for name in TENSORS):
        raise Missing("no evaluation stream was recorded: it needs eval.tier extended")
    accuracy, task, step, is_old_mask = (np.asarray(tensors[name]) for name in TENSORS)
    if accuracy.ndim != 2 or any(one.shape != accuracy.shape[:1] for one in (task, step, is_old_mask)):
        raise Missing("the evaluation stream has not one task, step and mask per evaluation")
    if not len(task):
        raise Missing("no training on the stream")
    if task.min() < 0 or task.max() >= accuracy.shape[1] or (np.diff(task) < 0).any():
        raise Missing("the evaluation stream is not of tasks in their order")
    return Stream(accuracy, task, step, is_old_mask.astype(bool))
