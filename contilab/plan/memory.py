"""Memories that hold too little for their method, or that nothing could ever fill; found when a study is planned.

How the entries are shared follows from the policy, see `contilab.engine.memory.occupancy`. A reservoir, or a class-balanced
memory, has no shares, but cannot hold more classes than it has entries.
"""

from collections.abc import Iterable, Mapping, Sequence
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
    """What a cell asks of memory.

    *written*: the place of its size. *by_means*: the method predicts classes by the entries that memory has of them.
    """

    method: str
    preset: str
    written: str
    memory: Memory
    train: Train
    benchmark: Benchmark
    source: Source
    by_means: bool

    @property
    def key(self) -> str:
        return _size_key(self.memory)

    @property
    def value(self) -> int:
        return int(getattr(self.memory, self.key))

    @property
    def size(self) -> str:
        return f"memory.{self.key} = {self.value}"

    @property
    def unit(self) -> int:
        """How many entries a size of one gives."""
        return 1 if self.key == "total" else self.source.head_rows

    def value_for(self, entries: int) -> int:
        """Return the least value that gives so many *entries*."""
        return -(-entries // self.unit)


class _Least(NamedTuple):
    """How many entries a memory needs, so that there is one for what."""

    entries: int
    what: str = ""


def memory_faults(cells: Iterable[ResolvedCell], sources: Mapping[Benchmark, Source], menu: Menu, place: str) -> list[Fault]:
    """Return the faults of the memories of *cells* where the *sources* are known; *place*: the manifest's name.

    A size that stands in one place is told once, with all methods that it does not suit.
    """
    shared: dict[tuple[str, int], list[_Asked]] = {}
    for cell in cells:
        source = sources.get(Benchmark(**cell.settings["benchmark"]))
        if source is not None and "memory" in cell.settings:
            asked = _asked(cell, source, menu, place)
            shared.setdefault((asked.written, asked.value), []).append(asked)
    return [fault for those in shared.values() for fault in (_too_little(those), _too_much(those)) if fault]


def _asked(cell: ResolvedCell, source: Source, menu: Menu, place: str) -> _Asked:
    tables = cell.settings
    strategy: Strategy = built(menu, "method", plugin_from(tables["method"]))
    memory = Memory(**tables["memory"])
    key = f"memory.{_size_key(memory)}"
    return _Asked(
        method=cell.method,
        preset=cell.preset,
        written=cell.places.get(key, f"{place}: {key}"),
        memory=memory,
        train=Train(**tables["train"]),
        benchmark=Benchmark(**tables["benchmark"]),
        source=source,
        by_means=strategy.head == "ncm",
    )


def _size_key(memory: Memory) -> str:
    return "total" if memory.per_class is None else "per_class"


def _too_little(shared: Sequence[_Asked]) -> Fault | None:
    """Return what is wrong with a size that keeps nothing at all, or nothing of some class or task, and the way out."""
    needs = [(asked, _least(asked)) for asked in shared]
    lacking = [(asked, least) for asked, least in needs if asked.value < asked.value_for(least.entries)]
    if not lacking:
        return None
    enough, _, what = max((asked.value_for(least.entries), *least) for asked, least in lacking)
    first, those = lacking[0][0], [asked for asked, _ in lacking]
    hint = f"give at least memory.{first.key} = {enough}{f', so that there is one for {what}' if what else ''}"
    if first.value == 0:
        return Fault(_place(those), f"{first.size} keeps nothing for {_methods(those)}", f"use naive, or {hint}")
    by_lack = _by([least.what for _, least in lacking], those)
    parts = [f"{_methods(some)} less than one entry for {lack}" for lack, some in by_lack]
    return Fault(_place(those), f"{first.size} gives {', and '.join(parts)}", hint)


def _too_much(shared: Sequence[_Asked]) -> Fault | None:
    """Return what is wrong with a size that could never be filled and is not sure to have room, and the way out."""
    over = [asked for asked in shared if asked.value > _most(asked)]
    if not over:
        return None
    first, enough, most = over[0], max(map(_enough, over)), min(map(_most, over))
    by_offers = _by([str(_offered(asked)) for asked in over], over)
    parts = [f"{offered} samples are offered to {_methods(some)}" for offered, some in by_offers]
    hint = f"memory.{first.key} = {enough} keeps all of them" if enough <= most else f"give at most memory.{first.key} = {most}"
    return Fault(_place(over), f"{first.size} can never be filled: at most {', and '.join(parts)}", hint)


def _by(keys: Iterable[str], those: Iterable[_Asked]) -> Iterable[tuple[str, list[_Asked]]]:
    """Return *those* by their *keys*, in the order in which they come."""
    found: dict[str, list[_Asked]] = {}
    for key, asked in zip(keys, those, strict=True):
        found.setdefault(key, []).append(asked)
    return found.items()


def _place(those: Sequence[_Asked]) -> str:
    """Return where the size of *those* is written, and in which presets it is wrong, unless the place says so."""
    written, presets = those[0].written, list(dict.fromkeys(asked.preset for asked in those))
    if f".{presets[0]}.memory." in written:
        return written
    return f"{written} of preset{'s' if presets[1:] else ''} {_words(presets)}"


def _methods(those: Iterable[_Asked]) -> str:
    return _words(dict.fromkeys(asked.method for asked in those))


def _words(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


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


def _most(asked: _Asked) -> int:
    """Return the largest size that is accepted: what could be filled, and what is sure to have room."""
    return max(ROOM // asked.unit, _enough(asked))


def _enough(asked: _Asked) -> int:
    """Return the least size that keeps everything that is offered."""
    return asked.value_for(_shares(asked) * _offered(asked))


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
    in_tasks = tasks if asked.benchmark.scenario == "domain" else 1  # elsewhere each class is in one task
    return {"ring": tasks, "ring_class": rows, "herding": rows * in_tasks}.get(asked.memory.policy, 1)
