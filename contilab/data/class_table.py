"""The class table: which classes make up each task, and which head row each class has.

One head serves every scenario. The classes, in natural or shuffled order, are cut into tasks; with classes left over, the
first tasks get one more (chosen). A first task of its own size stays the first: only the others are shuffled (chosen), and they
share the remaining classes. In the task and class scenarios the k-th class of that order has row k, whatever the order of
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
    order = order_of("class", spec.class_order_seed, classes)
    starts = _starts(spec, classes)
    tasks = [_task(spec, order, starts[task], starts[task + 1]) for task in range(spec.tasks)]
    if spec.first_task == "equal":
        return tuple(tasks[task] for task in order_of("task", spec.task_order_seed, spec.tasks))
    return (tasks[0], *(tasks[1 + task] for task in order_of("task", spec.task_order_seed, spec.tasks - 1)))


def head_rows(table: tuple[ClassTask, ...]) -> int:
    """Return the rows C of the head that *table* needs."""
    return 1 + max(row for task in table for row in task.rows)


def _starts(spec: Benchmark, classes: int) -> list[int]:
    """Return the place of the first class of each task in the order of classes, and the number of classes."""
    if spec.first_task == "equal":
        return _even(classes, spec.tasks)
    first, rest = int(spec.first_task), spec.tasks - 1
    if (left := classes - first) < rest or (left and not rest):
        problem = f"{first} of {classes} classes leave {left}, which do not give {rest} further tasks one class each"
        raise InputError("benchmark.first_task", problem, hint="set benchmark.first_task and benchmark.tasks so that they do")
    return [0, *(first + start for start in (_even(left, rest) if rest else [0]))]


def _even(classes: int, tasks: int) -> list[int]:
    return [task * (classes // tasks) + min(task, classes % tasks) for task in range(tasks + 1)]


def _task(spec: Benchmark, order: tuple[int, ...], start: int, end: int) -> ClassTask:
    rows = range(end - start) if spec.scenario == "domain" else range(start, end)
    return ClassTask(order[start:end], tuple(rows))


def order_of(what: str, seed: int | str, count: int) -> tuple[int, ...]:
    """Return the numbers below *count*, in natural order or in the one that *seed* gives *what* ("class" or "task")."""
    return tuple(range(count)) if seed == "natural" else shuffled(f"contilab.{what}_order/1 {seed}", count)
