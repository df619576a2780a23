"""Memories that hold too little for their method, or that nothing could ever fill; found when a study is planned.

How the entries are shared follows from the policy, see `contilab.engine.memory.occupancy`. A reservoir, or a class-balanced
memory, has no shares, but cannot hold more classes than it has entries.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from contilab.data.class_table import class_table
from contilab.data.contract import Source
from contilab.errors import Fault
from contilab.manifest.menu import Menu
from contilab.manifest.resolve import ResolvedCell
from contilab.plan.plugins import built
from contilab.spec.sections import Benchmark, Memory, Train, plugin_from
from contilab.strategies.contract import Strategy

# Entries asked for though nothing fills them; chosen. A process that learns digits so took 0.7 GB with derpp, 3.4 GB with agem
# (2026-11-30, one seed, two Xeon cores).
ROOM = 1_000_000


class _Asked(NamedTuple):
    """What a cell asks of memory. *by_means*: the method predicts classes by the entries that memory has of them."""

    method: str
    memory: Memory
    train: Train
    benchmark: Benchmark
    source: Source
    by_means: bool

    @property
    def key(self) -> str:
        return "total" if self.memory.per_class is None else "per_class"

    @property
    def size(self) -> str:
        return f"memory.{self.key} = {getattr(self.memory, self.key)}"

    def setting(self, entries: int) -> str:
        """Return the setting that gives at least so many *entries*."""
        return f"memory.{self.key} = {entries if self.key == 'total' else -(-entries // self.source.head_rows)}"


class _Least(NamedTuple):
    """How many entries a memory needs, so that there is one for what."""

    entries: int
    what: str = ""


def memory_faults(cells: Iterable[ResolvedCell], sources: Mapping[Benchmark, Source], menu: Menu, place: str) -> list[Fault]:
    """Return the faults of the memories of *cells*, each once, where the *sources* are known; *place*: the manifest's name."""
    faults: dict[Fault, None] = {}
    for cell in cells:
        source = sources.get(Benchmark(**cell.settings["benchmark"]))
        if source is None or "memory" not in cell.settings:
            continue
        asked = _asked(cell, source, menu)
        where = f"{place}: memory.{asked.key} of preset {cell.preset}"
        faults |= dict.fromkeys(Fault(where, *told) for told in (_too_little(asked), _too_much(asked)) if told)
    return list(faults)


def _asked(cell: ResolvedCell, source: Source, menu: Menu) -> _Asked:
    tables = cell.settings
    strategy: Strategy = built(menu, "method", plugin_from(tables["method"]))
    return _Asked(
        method=cell.method,
        memory=Memory(**tables["memory"]),
        train=Train(**tables["train"]),
        benchmark=Benchmark(**tables["benchmark"]),
        source=source,
        by_means=strategy.head == "ncm",
    )


def _too_little(asked: _Asked) -> tuple[str, str] | None:
    """Return what is wrong with a memory that keeps nothing at all, or nothing of some class or task, and the way out."""
    least, entries = _least(asked), asked.memory.capacity(asked.source.head_rows)
    if entries >= least.entries:
        return None
    setting = asked.setting(least.entries)
    hint = f"give at least {setting}{f', so that there is one for {least.what}' if least.what else ''}"
    if entries == 0:
        return f"{asked.size} keeps nothing", f"use naive, or {hint}"
    return f"{asked.size} gives {asked.method} less than one entry for {least.what}", hint


def _least(asked: _Asked) -> _Least:
    benchmark, rows = asked.benchmark, asked.source.head_rows
    classes = _Least(rows, f"each of the {rows} classes")
    if asked.memory.policy == "herding" and benchmark.scenario == "domain":  # every task has the first class
        return _Least(rows * benchmark.tasks, f"{classes.what} in each of the {benchmark.tasks} tasks")
    if asked.memory.policy == "ring" and asked.by_means:  # which no domain-incremental method does
        largest = max(len(task.rows) for task in class_table(benchmark, rows))
        return _Least(largest * benchmark.tasks, f"each class of each of the {benchmark.tasks} tasks")
    if asked.memory.policy == "ring":
        return _Least(benchmark.tasks, f"each of the {benchmark.tasks} tasks")
    return classes if asked.by_means or asked.memory.policy in ("herding", "ring_class") else _Least(1)


def _too_much(asked: _Asked) -> tuple[str, str] | None:
    """Return what is wrong with a memory larger than could ever be filled and than is sure to have room, and the way out."""
    offered, keys = _offered(asked), _shares(asked)
    if asked.memory.capacity(asked.source.head_rows) <= max(ROOM, keys * offered):
        return None
    problem = f"{asked.size} can never be filled: at most {offered} samples are offered to it"
    return problem, f"{asked.setting(keys * offered)} keeps all of them"


def _offered(asked: _Asked) -> int:
    """Return how many samples are offered at most; a sample that is offered again is another one."""
    if asked.memory.insert != "every_epoch":
        return asked.source.train_samples
    if asked.train.epochs:
        return asked.source.train_samples * asked.train.epochs
    return asked.benchmark.tasks * (asked.train.steps or 0) * asked.train.batch


def _shares(asked: _Asked) -> int:
    """Return how many shares a memory has at most: one of them may have to hold everything."""
    tasks, rows = asked.benchmark.tasks, asked.source.head_rows
    return {"ring": tasks, "ring_class": rows, "herding": rows * tasks}.get(asked.memory.policy, 1)
