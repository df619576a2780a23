"""The class table: which classes make up each task, and which head row each class has.

One head serves every scenario. The classes, in natural or shuffled order, are cut into tasks; with classes left over, the
first tasks get one more (chosen). In the task and class scenarios the k-th class of that order has row k, whatever the order of
tasks. In the domain scenario a class has the row of its position within its task, so all tasks share the rows.
"""

from typing import NamedTuple

from contilab.data.selection import shuffled
from contilab.errors import InputError
from contilab.spec.sections import Benchmark


class ClassTask(NamedTuple):
    """One task: its classes (labels of the data set), and the head row of each."""

    classes: tuple[int, ...]
    rows: tuple[int, ...]


def class_table(spec: Benchmark, classes: int) -> tuple[ClassTask, ...]:
    """Return the tasks of *spec* over *classes* classes, in the order they are learned.

    Raises InputError if there are more tasks than classes.
    """
    if spec.tasks > classes:
        problem = f"{spec.name} has {classes} classes, which do not give {spec.tasks} tasks one class each"
        raise InputError("benchmark.tasks", problem, hint=f"set benchmark.tasks to 1 up to {classes}")
    order = _order("class", spec.class_order_seed, classes)
    starts = [task * (classes // spec.tasks) + min(task, classes % spec.tasks) for task in range(spec.tasks + 1)]
    tasks = [_task(spec, order, starts[task], starts[task + 1]) for task in range(spec.tasks)]
    return tuple(tasks[task] for task in _order("task", spec.task_order_seed, spec.tasks))


def head_rows(table: tuple[ClassTask, ...]) -> int:
    """Return the rows C of the head that *table* needs."""
    return 1 + max(row for task in table for row in task.rows)


def _task(spec: Benchmark, order: tuple[int, ...], start: int, end: int) -> ClassTask:
    rows = range(end - start) if spec.scenario == "domain" else range(start, end)
    return ClassTask(order[start:end], tuple(rows))


def _order(what: str, seed: int | str, count: int) -> tuple[int, ...]:
    return tuple(range(count)) if seed == "natural" else shuffled(f"contilab.{what}_order/1 {seed}", count)
