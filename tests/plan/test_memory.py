"""Memories that hold too little, or that nothing could ever fill, are refused when a study is planned."""

from functools import cache

import numpy as np
import pytest

from contilab.engine.memory.entries import Integers
from contilab.engine.memory.occupancy import occupied
from contilab.engine.memory.plan import MemoryPlan
from contilab.errors import Fault, ManifestError
from contilab.manifest.keys import RIVALS
from contilab.manifest.resolve import ResolvedCell, resolve
from contilab.plan.expand import expand
from contilab.plan.memory import memory_faults
from contilab.plan.menu import catalog_menu
from contilab.spec.sections import Benchmark

HEAD = 'name = "a"\nprofile = "cpu"\n[matrix]\npreset = ["synthetic_class"]\nmethod = ["naive", "er"]\nseed = [0, 1]\n'
RING, BY_MEANS = {"memory.policy": "ring"}, {"method.head": "ncm"}
RING_CLASS = {"memory.policy": "ring_class"}
HERDING = {"memory.policy": "herding", "memory.insert": "task_end"}
CLASSES, TASKS, SHARED = "each of the 6 classes", "each of the 3 tasks", "each of the 2 classes in each of the 3 tasks"
EACH = "each class of each of the 3 tasks"
OF_CLASSES = np.kron(np.eye(3, dtype=np.int64), [1, 1])  # [T, C], samples: one of each class, which one task has
OF_SHARED = np.ones((3, 2), dtype=np.int64)  # one of each class in each task, which share them
OF_TASKS = np.kron(np.ones((3, 1), dtype=np.int64), [1, 0])  # one of each task
OFFERS = "1200 samples are offered to er, gem and icarl, and 2400 samples are offered to derpp"
METHODS = ("agem", "der", "derpp", "er", "er_ace", "gdumb", "gem", "icarl")
Settings = dict[str, int | str]


@cache
def _cells() -> dict[tuple[str, str], ResolvedCell]:
    """Return a cell of each method in each scenario."""
    presets = [f"synthetic_{scenario}" for scenario in ("task", "class", "domain")]
    values = (f"matrix.preset={presets}", f"matrix.method={list(METHODS)}")
    resolved = resolve(HEAD, place="m.toml", values=values, menu=catalog_menu())
    return {(cell.preset, cell.method): cell for cell in resolved.cells}


def _told(scenario: str, method: str, settings: Settings) -> list[Fault]:
    """Return the faults of memory that *settings* have."""
    cell = _cells()[f"synthetic_{scenario}", method]
    tables = {table: dict(own) for table, own in cell.settings.items()}
    for key, value in settings.items():
        table, _, short = key.partition(".")
        tables[table].pop(RIVALS.get(key, "").partition(".")[2], None)
        tables[table][short] = value
    benchmark = Benchmark(**tables["benchmark"])
    source = catalog_menu().entry("benchmark", benchmark.name).make(benchmark)
    return memory_faults([cell._replace(settings=tables)], {benchmark: source}, catalog_menu(), "m.toml")


def _plan(settings: Settings, total: int, offered: Integers) -> MemoryPlan:
    """Return what the engine is asked for by *settings* and a memory of *total* entries; offered: [T, C]."""
    tasks, rows = offered.shape
    policy = str(settings.get("memory.policy", "reservoir"))
    return MemoryPlan(total, batch=1, names=(), policy=policy, tasks=tasks, rows=rows)


class TestMemory:
    """Memories that keep too little, or could never be filled: six classes in three tasks, which share two rows in domain."""

    def faults(self, *values: str) -> list[Fault]:
        """Return the faults of the study with *values* on the command line."""
        with pytest.raises(ManifestError) as raised:
            expand(resolve(HEAD, place="m.toml", values=values, menu=catalog_menu()), catalog_menu(), "m.toml")
        return list(raised.value.faults)

    @pytest.mark.parametrize(
        ("cell", "key", "least", "what", "others"),
        [
            (("class", "icarl"), "memory.total", 6, CLASSES, {}),
            (("task", "icarl"), "memory.total", 6, CLASSES, {}),
            (("class", "er"), "memory.total", 6, CLASSES, BY_MEANS),
            (("task", "derpp"), "memory.total", 6, CLASSES, BY_MEANS),
            (("class", "er"), "memory.total", 6, EACH, BY_MEANS | RING),
            (("class", "er"), "memory.total", 12, EACH, BY_MEANS | RING | {"benchmark.first_task": 4}),
            (("class", "er"), "memory.total", 6, CLASSES, HERDING),
            (("domain", "er"), "memory.total", 6, SHARED, HERDING),
            (("domain", "er"), "memory.per_class", 3, SHARED, HERDING),
            (("class", "er"), "memory.total", 6, CLASSES, RING_CLASS),
            (("domain", "gem"), "memory.total", 3, TASKS, {}),
        ],
    )
    def test_less_than_one_entry_for_each(
        self, cell: tuple[str, str], key: str, least: int, what: str, others: Settings
    ) -> None:
        """A memory that keeps nothing of some class or task is refused with the least that it needs; so much is accepted."""
        assert _told(*cell, {key: least, **others}) == []
        assert _told(*cell, {key: least - 1, **others}) == [
            Fault(
                f"m.toml: {key} of preset synthetic_{cell[0]}",
                f"{key} = {least - 1} gives {cell[1]} less than one entry for {what}",
                f"give at least {key} = {least}, so that there is one for {what}",
            )
        ]

    @pytest.mark.parametrize(
        ("scenario", "settings", "samples"),
        [
            ("task", HERDING, OF_CLASSES),
            ("class", HERDING, OF_CLASSES),
            ("domain", HERDING, OF_SHARED),
            ("class", RING_CLASS, OF_CLASSES),
            ("domain", RING_CLASS, OF_SHARED[:1]),
            ("class", RING, OF_TASKS),
            ("domain", RING, OF_TASKS),
            ("class", RING | BY_MEANS, OF_CLASSES),
        ],
    )
    def test_is_refused_where_the_engine_would_keep_nothing_of_one(
        self, scenario: str, settings: Settings, samples: Integers
    ) -> None:
        """Of memories of 1 to 13 entries those are refused that lose one of the samples, one of each that is to be kept."""
        refused = [total for total in range(1, 14) if _told(scenario, "er", {"memory.total": total, **settings})]
        losing = [total for total in range(1, 14) if occupied(samples, _plan(settings, total, samples)) < samples.sum()]

        assert refused == losing
        assert refused

    @pytest.mark.parametrize(
        ("method", "key", "least"),
        [
            *((method, "total", "memory.total = 1") for method in ("agem", "der", "derpp", "er", "er_ace", "gdumb")),
            ("er", "per_class", "memory.per_class = 1"),
            ("gem", "total", "memory.total = 3, so that there is one for each of the 3 tasks"),
            ("icarl", "total", f"memory.total = 6, so that there is one for {CLASSES}"),
            ("icarl", "per_class", f"memory.per_class = 1, so that there is one for {CLASSES}"),
        ],
    )
    def test_memory_that_keeps_nothing(self, method: str, key: str, least: str) -> None:
        """A method that uses memory is not planned with none: naive is what trains without."""
        assert _told("class", method, {f"memory.{key}": 0}) == [
            Fault(
                f"m.toml: memory.{key} of preset synthetic_class",
                f"memory.{key} = 0 keeps nothing for {method}",
                f"use naive, or give at least {least}",
            )
        ]

    @pytest.mark.parametrize(
        ("method", "settings", "offered", "enough"),
        [
            ("er", {"memory.total": 10**11}, 1200, "memory.total = 1200"),
            ("er", {"memory.total": 1_000_001}, 1200, "memory.total = 1200"),
            ("er", {"memory.per_class": 10**11}, 1200, "memory.per_class = 200"),
            ("derpp", {"memory.total": 1_000_001, "train.epochs": 2}, 2400, "memory.total = 2400"),
            ("derpp", {"memory.total": 1_000_001, "train.steps": 5, "train.batch": 4}, 60, "memory.total = 60"),
            ("gem", {"memory.total": 1_000_001}, 1200, "memory.total = 3600"),
            ("icarl", {"memory.total": 1_000_001}, 1200, "memory.total = 7200"),
        ],
    )
    def test_memory_that_can_never_be_filled(self, method: str, settings: Settings, offered: int, enough: str) -> None:
        """Far more entries than samples that are ever offered are refused, with a size that keeps all of these."""
        key, count = next(iter(settings.items()))

        assert _told("class", method, settings) == [
            Fault(
                f"m.toml: {key} of preset synthetic_class",
                f"{key} = {count} can never be filled: at most {offered} samples are offered to {method}",
                f"{enough} keeps all of them",
            )
        ]

    @pytest.mark.parametrize(
        ("scenario", "settings", "samples"),
        [
            ("class", {}, OF_CLASSES),
            ("class", {"memory.policy": "class_balanced"}, OF_CLASSES),
            ("class", RING, OF_CLASSES),
            ("class", RING_CLASS, OF_CLASSES),
            ("task", HERDING, OF_CLASSES),
            ("class", HERDING, OF_CLASSES),
            ("domain", HERDING, OF_SHARED),
        ],
    )
    def test_what_is_told_to_keep_all_does_so_in_the_engine(self, scenario: str, settings: Settings, samples: Integers) -> None:
        """Also where all but one sample of each class that a task has are of one class of one task."""
        (fault,) = _told(scenario, "er", {"memory.total": 10**11, **settings})
        total, offered = int(fault.hint.split()[2]), samples.copy()
        offered[0, 0] += 1200 - offered.sum()

        assert occupied(offered, _plan(settings, total, offered)) == 1200

    @pytest.mark.parametrize("settings", [{"memory.total": 10**6}, {"memory.total": 10**6 + 1, "train.steps": 400_000}])
    def test_memory_that_keeps_everything(self, settings: Settings) -> None:
        """A memory that is larger than the data, but no burden, is a choice; so is any that can be filled."""
        assert _told("class", "der", settings) == []

    @pytest.mark.parametrize(
        ("values", "place", "problem", "hint"),
        [
            (
                ["overrides.memory.total=0"],
                "overrides.memory.total of preset synthetic_class",
                "memory.total = 0 keeps nothing for er, gem, derpp and icarl",
                f"use naive, or give at least memory.total = 6, so that there is one for {CLASSES}",
            ),
            (
                ["memory.total=1"],
                "memory.total of preset synthetic_class",
                f"memory.total = 1 gives gem less than one entry for {TASKS}, and icarl less than one entry for {CLASSES}",
                f"give at least memory.total = 6, so that there is one for {CLASSES}",
            ),
            (
                ["memory.total=2000000", "train.epochs=2"],
                "memory.total of preset synthetic_class",
                f"memory.total = 2000000 can never be filled: at most {OFFERS}",
                "memory.total = 7200 keeps all of them",
            ),
            (
                ["matrix.preset=['synthetic_class', 'synthetic_task']", "memory.per_class=0"],
                "memory.per_class of presets synthetic_class and synthetic_task",
                "memory.per_class = 0 keeps nothing for er, gem, derpp and icarl",
                f"use naive, or give at least memory.per_class = 1, so that there is one for {CLASSES}",
            ),
            (
                ["preset_overrides.synthetic_class.memory.total=5"],
                "preset_overrides.synthetic_class.memory.total",
                f"memory.total = 5 gives icarl less than one entry for {CLASSES}",
                f"give at least memory.total = 6, so that there is one for {CLASSES}",
            ),
        ],
    )
    def test_a_size_is_told_once(self, values: list[str], place: str, problem: str, hint: str) -> None:
        """Of what stands in one place all methods are named that it does not suit, and the way out suits all of them."""
        faults = self.faults("matrix.method=['naive', 'er', 'gem', 'derpp', 'icarl']", *values)

        assert faults == [Fault(f"command line: {place}", problem, hint)]

    @pytest.mark.parametrize(
        ("table", "problems"),
        [
            ("matrix", ["0 keeps nothing for gem and er", f"1 gives gem less than one entry for {TASKS}"]),
            ("method_sweep.er", ["0 keeps nothing for er"]),
        ],
    )
    def test_each_size_of_an_axis_is_told(self, table: str, problems: list[str]) -> None:
        """Its place is the table that varies it."""
        faults = self.faults("matrix.method=['gem', 'er']", f"{table}.memory.total=[0, 1, 3]")

        assert [(fault.place, fault.problem) for fault in faults] == [
            (f"command line: {table}.memory.total of preset synthetic_class", f"memory.total = {problem}")
            for problem in problems
        ]

    def test_hint_of_a_size_that_can_never_be_filled_is_accepted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where no size keeps everything for one method and is small enough for another, it is the most that all may have."""
        monkeypatch.setattr("contilab.plan.memory.ROOM", 2000)
        (fault,) = self.faults("matrix.method=['er', 'gem']", "memory.total=5000")

        assert fault.hint == "give at most memory.total = 2000"

    def test_comes_with_other_faults(self) -> None:
        """Memory, device and benchmark are three faults of one message; methods that use no memory add none."""
        faults = self.faults("memory.total=0", "engine.device=gpu", "train.augment=flip")

        assert [fault.place.removesuffix(" of preset synthetic_class") for fault in faults] == [
            "m.toml: engine.device",
            "m.toml: train.augment",
            "command line: memory.total",
        ]
