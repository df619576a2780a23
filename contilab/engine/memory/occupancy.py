"""How many entries memory holds once so many samples were offered: it follows from the policy, so it is known before training.

Shapes: T tasks, C head rows, N samples of the pool.
"""

import numpy as np

from contilab.engine.memory.entries import Integers
from contilab.engine.memory.plan import MemoryPlan


def counts(rows: Integers, tasks: Integers, samples: Integers, plan: MemoryPlan) -> Integers:
    """Return how many of *samples* each task has of each row, [T, C]; rows, tasks: [N], of the pool."""
    cells = tasks[samples] * plan.rows + rows[samples]
    found: Integers = np.bincount(cells, minlength=plan.tasks * plan.rows).reshape(plan.tasks, plan.rows)
    return found


def herding_quotas(offered: Integers, capacity: int) -> Integers:
    """Return how many exemplars of each task and row [T, C] are chosen at most: floor(M / rows seen) per row.

    A row that several tasks share divides its quota among those that had samples of it; chosen, so that the list of an earlier
    task is cut and not lost.

    >>> herding_quotas(np.array([[9, 9, 0], [0, 9, 9]]), 12)
    array([[4, 2, 0],
           [0, 2, 4]])
    """
    has = offered > 0
    rows = int(has.any(0).sum())
    if rows == 0:
        return np.zeros_like(offered)
    return np.where(has, capacity // rows // np.maximum(has.sum(0), 1), 0)


def occupied(offered: Integers, plan: MemoryPlan) -> int:
    """Return how many entries memory holds once *offered* [T, C] samples of each task and row were offered.

    >>> occupied(np.array([[3, 40], [40, 0]]), MemoryPlan(20, batch=4, names=(), policy="ring_class", tasks=2, rows=2))
    20
    >>> occupied(np.array([[3, 40], [0, 0]]), MemoryPlan(20, batch=4, names=(), policy="herding", tasks=2, rows=2))
    13
    """
    if plan.policy == "herding":
        return int(np.minimum(offered, herding_quotas(offered, plan.capacity)).sum())
    if plan.policy == "ring":
        return int(np.minimum(offered.sum(1), plan.capacity // plan.tasks).sum())
    if plan.policy == "ring_class":
        return int(np.minimum(offered.sum(0), plan.capacity // plan.rows).sum())
    return min(plan.capacity, int(offered.sum()))
