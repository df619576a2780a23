"""By which schedule the evaluation streams of runs were evaluated.

Minima depend on how often and on how many samples one looks, so values of different schedules are never compared: tables mark
them in place, tests refuse them. A schedule is what a result says of its own stream: when it was evaluated, and on how many
samples of a task. That a metric of one's own reads a stream is not known here.
"""

from collections.abc import Iterable, Mapping

from contilab.metrics.contract import Absent
from contilab.metrics.table import METRICS
from contilab.report.benchmark import Variant, plain
from contilab.report.runs import RunReport

OF_STREAMS = ("contilab.metrics.stability:", "contilab.metrics.learning_curve:")  # where their formulas are
SAID = {"schedule", "dense_steps", "growth", "samples"}  # what a record says of it
STREAM_METRICS = frozenset(name for name, place in METRICS.items() if place.startswith(OF_STREAMS))


def schedule_of(run: RunReport) -> str:
    """Return the schedule of the stream of *run* in words; "" without a stream."""
    found = run.record.notes.get("stream") if run.record else None
    if not isinstance(found, Mapping):
        return ""
    if not found.keys() >= SAID or not isinstance(found["samples"], list) or not found["samples"]:  # told as it is written
        return plain(dict(found))
    pace = f"each step to {found['dense_steps']}, then growing by {found['growth']}"
    return f"{found['schedule']} ({pace}) on {max(found['samples'])} samples of a task"


def schedules(variants: Iterable[Variant], name: str) -> tuple[str, ...]:
    """Return the schedules behind the values of the metric *name*, each once; none if it reads no stream."""
    if name not in STREAM_METRICS:
        return ()
    runs = (
        run
        for variant in variants
        for run, value in zip(variant.runs, variant.values(name), strict=True)
        if not isinstance(value, Absent)
    )
    return tuple(dict.fromkeys(filter(None, map(schedule_of, runs))))


def differing(variants: Iterable[Variant]) -> tuple[str, ...]:
    """Return each schedule with the *variants* whose streams have it; none where all streams have the same one."""
    found: dict[str, dict[str, None]] = {}
    for variant in variants:
        for schedule in filter(None, map(schedule_of, variant.runs)):
            found.setdefault(schedule, {})[variant.label] = None
    return tuple(f"{schedule} for {', '.join(labels)}" for schedule, labels in found.items()) if len(found) > 1 else ()
