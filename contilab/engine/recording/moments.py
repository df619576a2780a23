"""When the stream is evaluated: dense after each switch, then ever more seldom, and after the last step of each task.

Minima depend on the schedule, so its name is in the address of a run and its steps are stored with the values.
"""

from functools import cache

from contilab.spec.sections import StreamSchedule

# Up to which step each step is evaluated, and by which factor step counts grow from there; chosen. Both hold the steps 0 to 10
# of learning curves.
PACES: dict[StreamSchedule, tuple[int, float]] = {"dense": (50, 1.2), "sparse": (10, 1.5)}


@cache  # asked before each chunk of steps
def moments(schedule: StreamSchedule, steps: int) -> tuple[int, ...]:
    """Return after which of the *steps* steps of a task the stream is evaluated.

    >>> moments("dense", 100)[-5:]
    (50, 60, 72, 86, 100)
    >>> moments("sparse", 40)[-6:], moments("sparse", 3)
    ((9, 10, 15, 22, 33, 40), (0, 1, 2, 3))
    """
    dense, growth = PACES[schedule]
    found = list(range(min(dense, steps)))
    step = dense
    while step < steps:
        found.append(step)
        step = max(step + 1, int(step * growth))
    return (*found, steps)
