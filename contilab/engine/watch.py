"""What training tells those who wait for it, and how it learns that it should stop."""

from collections.abc import Callable
from typing import NamedTuple


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


class Watch(NamedTuple):
    """Calls out of training: *progress* and *stop* every half second or step; *stop* returning True raises `Stopped`."""

    progress: Callable[[Progress], None]
    stop: Callable[[], bool]
    log: Callable[..., None]  # (event, **facts)


def silent() -> Watch:
    """Return a watch that nobody looks at, and that never stops anything."""
    return Watch(progress=lambda _progress: None, stop=lambda: False, log=lambda _event, **_facts: None)
