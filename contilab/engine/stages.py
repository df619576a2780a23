"""The stages of a run: what is learned in one go, and for how many steps.

How many entries memory holds when a stage begins follows from the policy and from what was offered before, so the length of
every stage is known before training.
"""

from collections.abc import Sequence

import numpy as np

from contilab.data.contract import Stream
from contilab.engine.draws import Stage
from contilab.engine.memory.entries import Integers
from contilab.engine.memory.occupancy import counts, occupied
from contilab.engine.memory.plan import MemoryPlan
from contilab.engine.schedule import Schedule
from contilab.spec.sections import Train
from contilab.strategies.contract import Strategy


def stages(train: Train, stream: Stream, strategy: Strategy, plan: MemoryPlan) -> tuple[Stage, ...]:
    """Return the stages; joint training has one, with the epochs of one task but the steps of all of them together."""
    parts = [task.train.cpu().numpy() for task in stream.tasks]
    if strategy.stages == "joint":
        samples = np.concatenate(parts)
        return (Stage(0, samples, _schedule(train, strategy, len(samples), tasks=len(parts)), new=samples),)
    rows, tasks = stream.train_rows.cpu().numpy(), stream.train_tasks.cpu().numpy()
    has_entries, fills = strategy.stages in ("exemplars", "memory"), strategy.stages == "memory"
    before = np.zeros((plan.tasks, plan.rows), dtype=np.int64)
    found = []
    for number, new in enumerate(parts):
        samples = _samples(strategy, parts, number)
        after = before + counts(rows, tasks, new, plan)
        entries = occupied(after if fills else before, plan) if has_entries else 0
        schedule = _schedule(train, strategy, len(samples) + entries)
        found.append(Stage(number, samples, schedule, new, has_entries, fills))
        before = after
    return tuple(found)


def _samples(strategy: Strategy, parts: Sequence[Integers], number: int) -> Integers:
    if strategy.stages == "cumulative":
        return np.concatenate(parts[: number + 1])
    return parts[number][:0] if strategy.stages == "memory" else parts[number]


def _schedule(train: Train, strategy: Strategy, samples: int, *, tasks: int = 1) -> Schedule:
    own = strategy.training
    batch = train.batch if own is None else own.batch
    epochs = (train.epochs or 0) if own is None else own.epochs
    steps = (train.steps or 0) * tasks if own is None else 0
    return Schedule(samples, batch, steps or Schedule(samples, batch, 0).steps_per_epoch * epochs)
