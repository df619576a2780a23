"""What training tells those who wait for it, and how it learns that it should stop. Loads no torch."""

from collections.abc import Callable
from typing import NamedTuple


class Snapshot(NamedTuple):
    """A group after *step* steps of all stages, as files by name."""

    step: int
    files: dict[str, bytes]


class Progress(NamedTuple):
    """How far a group is. *step* of *steps* counts over all stages.

    samples_per_second: summed over members, replayed ones left out.
    loss: mean over the members that have not diverged, over the last steps; None if there is none left.
    """

    task: int
    tasks: int
    step: int
    steps: int
    samples_per_second: float
    loss: float | None


def _never() -> bool:
    return False


def _always() -> bool:
    return True


class Watch(NamedTuple):
    """Calls out of training: *progress* and *stop* every half second or step; *stop* returning True raises `Stopped`.

    In exams *stop* is asked before each batch.

    save: keeps a snapshot to resume from; None: none is ever made. What it raises ends training. It is called when *is_due*
    says so, asked between two chunks of steps; at the end of each task, unless *is_due_at_task_end* says no; and before
    `Stopped` is raised if *saves_on_stop* says so. Never twice for one step, nor before the first.
    """

    progress: Callable[[Progress], None]
    stop: Callable[[], bool]
    log: Callable[..., None]  # (event, **facts)
    save: Callable[[Snapshot], None] | None = None
    is_due: Callable[[], bool] = _never
    is_due_at_task_end: Callable[[], bool] = _always
    saves_on_stop: Callable[[], bool] = _never


def silent() -> Watch:
    """Return a watch that nobody looks at, and that never stops anything."""
    return Watch(progress=lambda _progress: None, stop=lambda: False, log=lambda _event, **_facts: None)
