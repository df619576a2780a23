"""The record of a run: what training leaves for metrics and reports, without any data set or model.

Matrices are indexed [after_task][test_task]; a cell that was not measured is None. With T tasks and S training stages
(S = T, but 1 for joint training) a full record has S rows; a run that diverged has fewer.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

SCHEME = "contilab.record/1"
AXES = ("after_task", "test_task")

Matrix = list[list[float | None]]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What the run cost. Times are of the whole group; divide by *members* only within one machine and group size."""

    samples_new: int = 0
    samples_replayed: int = 0
    train_steps: int = 0
    flops: int = 0  # training: forward, backward and importance passes
    flops_evaluation: int = 0
    seconds_group: float = 0.0  # wall time of the group, data loading excluded
    seconds_recording: float = 0.0  # of it, spent on evaluation and records
    members: int = 1  # runs trained together
    steps_per_second: list[float] = field(default_factory=list)  # per task
    params_trainable: int = 0
    params_total: int = 0
    peak_rss_bytes: int = 0
    peak_device_bytes: int = 0
    buffer_bytes: int = 0  # what the replay memory stores: 8 bytes per index, 4 per logit
    buffer_sample_bytes: int = 0  # M times the bytes of one sample
    state_bytes: int = 0  # importances, anchors, snapshots


@dataclass(frozen=True, kw_only=True)
class Record:
    """What one run leaves.

    *accuracy*, *accuracy_task_aware* (class-incremental only) and *accuracy_all_rows* (argmax over every row of the head)
    are matrices; *baseline* is the row of the untrained model under the mask of each task; *test_samples* the sizes n_j.
    *diverged* names the task and step of the first non-finite loss. *notes* hold facts of the method (such as
    `ewc_capped_share` or the Fisher estimator) by name.
    """

    scenario: Literal["task", "class", "domain"]
    tasks: int
    head_rows: int
    task_rows: list[list[int]]
    test_samples: list[int]
    stages: int
    accuracy: Matrix
    baseline: list[float | None]
    accuracy_all_rows: Matrix
    accuracy_task_aware: Matrix | None = None
    validation: Matrix | None = None  # validation accuracy, absent with benchmark.validation = 0
    train_loss: list[list[float]] = field(default_factory=list)  # per stage: mean loss of each epoch, or of each 100 steps
    diverged: dict[str, int] | None = None  # {"task": t, "step": s}
    notes: dict[str, Any] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)

    @property
    def state(self) -> Literal["finished", "diverged"]:
        """How the run ended; both are results."""
        return "diverged" if self.diverged else "finished"


def lines_of(record: Record) -> list[dict[str, Any]]:
    """Return *record* as JSON lines: a head, then one line per field, matrices with their axes."""
    values = asdict(record)
    head = {"record": SCHEME, "state": record.state, **{name: values.pop(name) for name in _HEAD}}
    return [head, *({"name": name, "value": value, **_axes(name)} for name, value in values.items() if value is not None)]


def record_from(lines: list[dict[str, Any]]) -> Record:
    """Return the record that *lines* describe; ValueError for another scheme, KeyError or TypeError for missing fields."""
    head = lines[0]
    if head.get("record") != SCHEME:
        raise ValueError(f"the scheme is {head.get('record')!r}, this version reads {SCHEME!r}")
    values = {line["name"]: line["value"] for line in lines[1:]}
    values["cost"] = Cost(**values["cost"])
    return Record(**{name: head[name] for name in _HEAD}, **values)


_HEAD = ("scenario", "tasks", "head_rows", "task_rows", "test_samples", "stages")
_MATRICES = ("accuracy", "accuracy_task_aware", "accuracy_all_rows", "validation")


def _axes(name: str) -> dict[str, list[str]]:
    return {"axes": list(AXES)} if name in _MATRICES else {}
