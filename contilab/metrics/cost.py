"""What a run cost: samples, steps, operations, time and memory.

Times and peaks are of the whole group; they are never compared across group sizes or machines.
"""

from collections.abc import Callable
from statistics import fmean

from contilab.metrics.contract import Evidence, Metric, Missing
from contilab.records.record import Cost


def seconds_per_run(cost: Cost) -> float:
    """Return the seconds of the group divided by its members.

    >>> seconds_per_run(Cost(seconds_group=12.0, members=4))
    3.0
    """
    return cost.seconds_group / cost.members


def steps_per_second_mean(cost: Cost) -> float:
    """Return the steps per second of the group, averaged over the tasks.

    >>> steps_per_second_mean(Cost(steps_per_second=[100.0, 50.0]))
    75.0
    """
    if not cost.steps_per_second:
        raise Missing("no task was trained to its end")
    return fmean(cost.steps_per_second)


def _cost(name: str, unit: str, summary: str, read: Callable[[Cost], float] | None = None) -> Metric:
    def function(evidence: Evidence) -> float:
        cost = evidence.cost or Cost()
        return read(cost) if read else float(getattr(cost, name))

    return Metric(name, function, summary, ("cost",), unit, higher_is_better=None, is_of_group=name in _OF_GROUP)


_OF_GROUP = (
    "seconds_group",
    "seconds_per_run",
    "seconds_recording",
    "members",
    "steps_per_second_mean",
    "peak_rss_bytes",
    "peak_device_bytes",
)


SAMPLES_NEW = _cost("samples_new", "samples", "new samples trained on")
SAMPLES_REPLAYED = _cost("samples_replayed", "samples", "samples replayed from memory")
TRAIN_STEPS = _cost("train_steps", "steps", "steps of the optimiser")
FLOPS = _cost("flops", "operations", "training: forward, backward and importance passes")
FLOPS_EVALUATION = _cost("flops_evaluation", "operations", "evaluation, counted apart")
SECONDS_GROUP = _cost("seconds_group", "seconds", "wall time of the group the run was trained in")
SECONDS_PER_RUN = _cost("seconds_per_run", "seconds", "seconds_group divided by the members of the group", seconds_per_run)
SECONDS_RECORDING = _cost("seconds_recording", "seconds", "of seconds_group, spent on evaluation and records")
MEMBERS = _cost("members", "runs", "runs trained together")
STEPS_PER_SECOND_MEAN = _cost(
    "steps_per_second_mean", "steps per second", "speed of the group, averaged over the tasks", steps_per_second_mean
)
PARAMS_TRAINABLE = _cost("params_trainable", "parameters", "parameters that are trained")
PARAMS_TOTAL = _cost("params_total", "parameters", "all parameters")
PEAK_RSS_BYTES = _cost("peak_rss_bytes", "bytes", "largest resident memory of the process of the group")
PEAK_DEVICE_BYTES = _cost("peak_device_bytes", "bytes", "largest device memory of the group")
BUFFER_BYTES = _cost("buffer_bytes", "bytes", "what the replay memory stores")
BUFFER_SAMPLE_BYTES = _cost("buffer_sample_bytes", "bytes", "the replay memory, had it stored its samples")
STATE_BYTES = _cost("state_bytes", "bytes", "importances, anchors and snapshots of the method")
