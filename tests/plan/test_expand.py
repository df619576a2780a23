import json
from functools import cache
from math import prod
from pathlib import Path

import numpy as np
import pytest

from contilab.data.cache import Cache, Named
from contilab.engine.memory.occupancy import herding_quotas
from contilab.errors import Fault, ManifestError
from contilab.manifest.keys import RIVALS
from contilab.manifest.resolve import ResolvedCell, resolve
from contilab.plan.expand import Expanded, expand
from contilab.plan.memory import memory_faults
from contilab.plan.menu import catalog_menu
from contilab.spec.numerics import ENGINE
from contilab.spec.run import run_from
from contilab.spec.sections import Benchmark

MANIFESTS = sorted((Path(__file__).parents[2] / "manifests").glob("*.toml"))
HEAD = 'name = "a"\nprofile = "cpu"\n[matrix]\npreset = ["synthetic_class"]\nmethod = ["naive", "er"]\nseed = [0, 1]\n'


def _expanded(body: str = "", *values: str) -> Expanded:
    return expand(resolve(HEAD + body, place="m.toml", values=values, menu=catalog_menu()), catalog_menu(), "m.toml")


class TestRuns:
    """The runs that a manifest stands for."""

    def test_one_run_per_cell_and_seed(self) -> None:
        """Each cell has one run per seed, and each run is kept under its own address."""
        study = _expanded()

        assert [(cell.method, list(cell.runs)) for cell in study.cells] == [("naive", [0, 1]), ("er", [0, 1])]
        assert [run.rid for run in study.runs.values()] == list(study.runs)
        assert len(study.runs) == 4

    def test_numerics(self) -> None:
        """A run names the version of the numbers of its engine and of each of its plugins."""
        run = next(iter(_expanded().runs.values()))
        menu = catalog_menu()

        assert run.numerics == {
            "engine": ENGINE,
            "benchmark": menu.entry("benchmark", "synthetic").numerics,
            "model": menu.entry("model", "mlp").numerics,
            "optim": menu.entry("optim", "sgd").numerics,
            "method": menu.entry("method", "naive").numerics,
        }

    def test_data(self) -> None:
        """A run holds the digest of its data, which needs no data to be there."""
        (run, *_) = _expanded('[overrides]\n"benchmark.name" = "split_mnist"').runs.values()

        assert (run.data.name, len(run.data.digest)) == ("mnist", 64)

    def test_flat_inputs_are_not_augmented(self) -> None:
        """To augment inputs that are no pictures is a fault of the manifest, each benchmark once, with the way out."""
        with pytest.raises(ManifestError) as raised:
            _expanded('[overrides]\n"train.augment" = "flip"')
        (fault,) = raised.value.faults

        assert fault.place == "m.toml: train.augment of preset synthetic_class"
        assert fault.problem == '"flip" moves pixels of pictures, and the inputs of this benchmark have shape [20]'
        assert fault.hint

    def test_stored_form(self) -> None:
        """A run that went through JSON has the same address."""
        for rid, run in _expanded().runs.items():
            assert run_from(json.loads(json.dumps(run.spec))).rid == rid

    @pytest.mark.parametrize(
        "body",
        [
            '[overrides]\n"memory.batch" = 64',
            '[overrides]\n"memory.total" = 500',
            '[overrides]\n"optim.lr" = 0.1\n"optim.momentum" = 0',
            '[overrides]\n"engine.max_members" = 3\n"engine.threads" = 1\n"engine.device" = "cpu"\n"engine.execution" = "loop"',
            '[overrides]\n"engine.checkpoint_seconds" = 5',
            "# a comment",
        ],
        ids=["replay batch", "memory", "integers for floats", "execution", "checkpoints", "comment"],
    )
    def test_same_runs(self, body: str) -> None:
        """Defaults written out, other ways of writing and engine choices that change no number give the same runs."""
        assert _expanded(body).runs.keys() == _expanded().runs.keys()

    @pytest.mark.parametrize(
        "setting", ["optim.lr=0.2", "train.batch=32", "engine.precision=fp32", "benchmark.validation=0", "model.hidden=[32]"]
    )
    def test_other_runs(self, setting: str) -> None:
        """What may change a number changes every address."""
        assert not _expanded("", setting).runs.keys() & _expanded().runs.keys()

    def test_runs_shared_by_cells(self) -> None:
        """Two cells that come to the same run share it."""
        study = _expanded(
            '[preset_overrides.synthetic_task]\n"benchmark.scenario" = "class"',
            'matrix.preset=["synthetic_class", "synthetic_task"]',
        )

        assert (len(study.cells), len(study.runs)) == (4, 4)

    def test_data_that_do_not_fit(self) -> None:
        """Every benchmark that its data do not allow is a fault of the manifest, each once."""
        with pytest.raises(ManifestError) as raised:
            _expanded('[sweep]\n"benchmark.tasks" = [2, 7, 8]')

        assert [fault.place for fault in raised.value.faults] == ["m.toml: benchmark.tasks of preset synthetic_class"] * 2
        assert all(isinstance(fault, Fault) and "6 classes" in fault.problem for fault in raised.value.faults)

    def test_device_that_is_none(self) -> None:
        """A word that names no device is a fault of the manifest; a device that this machine lacks is none."""
        with pytest.raises(ManifestError) as raised:
            _expanded("", "engine.device=gpu")

        (fault,) = raised.value.faults
        assert (fault.place, fault.problem) == ("m.toml: engine.device of preset synthetic_class", '"gpu" is no device')
        assert _expanded("", "engine.device=cuda:99").runs

    @pytest.mark.parametrize("setting", ["engine.threads=1025", "model.hidden=[9223372036854775807]"])
    def test_beyond_every_machine(self, setting: str) -> None:
        """Numbers that no machine can serve are out of range, not a crash of the one that plans or trains."""
        with pytest.raises(ManifestError, match="is out of range"):
            _expanded("", setting)


RING, BY_MEANS = {"memory.policy": "ring"}, {"method.head": "ncm"}
HERDING = {"memory.policy": "herding", "memory.insert": "task_end"}
CLASSES, SHARED = "each of the 6 classes", "each of the 2 classes in each of the 3 tasks"
EACH = "each class of each of the 3 tasks"
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


class TestMemory:
    """Memories that keep too little, or could never be filled: six classes in three tasks, which share two rows in domain."""

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
            (("class", "er"), "memory.total", 6, CLASSES, {"memory.policy": "ring_class"}),
            (("domain", "gem"), "memory.total", 3, "each of the 3 tasks", {}),
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

    @pytest.mark.parametrize("scenario", ["task", "class", "domain"])
    def test_herding_is_refused_where_the_engine_would_keep_nothing_of_a_class(self, scenario: str) -> None:
        """Of memories of 1 to 13 entries those are refused that leave some class of some task without an exemplar."""
        offered = np.ones((3, 2), dtype=np.int64) if scenario == "domain" else np.kron(np.eye(3, dtype=np.int64), [1, 1])
        refused = [total for total in range(1, 14) if _told(scenario, "er", {"memory.total": total, **HERDING})]

        assert refused == [total for total in range(1, 14) if (herding_quotas(offered, total)[offered > 0] == 0).any()]

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
                f"memory.{key} = 0 keeps nothing",
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
        ],
    )
    def test_memory_that_can_never_be_filled(self, method: str, settings: Settings, offered: int, enough: str) -> None:
        """Far more entries than samples that are ever offered are refused, with a size that keeps all of these."""
        key, count = next(iter(settings.items()))

        assert _told("class", method, settings) == [
            Fault(
                f"m.toml: {key} of preset synthetic_class",
                f"{key} = {count} can never be filled: at most {offered} samples are offered to it",
                f"{enough} keeps all of them",
            )
        ]

    @pytest.mark.parametrize("settings", [{"memory.total": 10**6}, {"memory.total": 10**6 + 1, "train.steps": 400_000}])
    def test_memory_that_keeps_everything(self, settings: Settings) -> None:
        """A memory that is larger than the data, but no burden, is a choice; so is any that can be filled."""
        assert _told("class", "der", settings) == []

    def test_comes_with_other_faults(self) -> None:
        """Memory, device and benchmark are three faults of one message; methods that use no memory add none."""
        with pytest.raises(ManifestError) as raised:
            _expanded("", "memory.total=0", "engine.device=gpu", "train.augment=flip")

        assert [fault.place.split()[1] for fault in raised.value.faults] == ["engine.device", "train.augment", "memory.total"]


def put_shape(cache: Cache, name: str, classes: int) -> None:
    """Let *cache* have a file of the shape of CIFAR without its values: planning reads no more than the header."""
    shapes = {"train_inputs": [50_000, 3, 32, 32], "train_labels": [50_000], "test_inputs": [10_000, 3, 32, 32]}
    header: dict[str, object] = {"__metadata__": {"classes": str(classes)}}
    end = 0
    for array, shape in {**shapes, "test_labels": [10_000]}.items():
        begin, end = end, end + prod(shape) * (8 if "labels" in array else 1)
        header[array] = {"dtype": "I64" if "labels" in array else "U8", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    cache.point(name, Named(name, f"{classes:064d}", name, is_published=True))
    with cache.path(f"{classes:064d}").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)  # a hole of the file system


class TestShippedManifests:
    """The manifests of the repository."""

    @pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
    def test_each_expands(self, path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Every shipped manifest resolves and expands, is named as its file, and opens with its question."""
        monkeypatch.setenv("CONTILAB_CACHE", str(tmp_path))
        for name, classes in (("cifar10", 10), ("cifar100", 100)):
            put_shape(Cache(tmp_path), name, classes)
        text = path.read_text(encoding="utf-8")
        study = expand(resolve(text, place=path.name, values=(), menu=catalog_menu()), catalog_menu())

        assert study.name == path.stem
        assert study.runs
        assert text.startswith("# ")
        assert "?" in text.partition("\nname")[0]

    def test_data_that_are_not_there_are_named(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Without CIFAR planning ends with the command that imports it, as a fault of the manifest's benchmarks."""
        monkeypatch.setenv("CONTILAB_CACHE", str(tmp_path))
        text = next(path for path in MANIFESTS if path.stem == "cifar").read_text(encoding="utf-8")

        with pytest.raises(ManifestError) as caught:
            expand(resolve(text, place="cifar.toml", values=(), menu=catalog_menu()), catalog_menu())

        assert [fault.hint.partition(" DIR")[0] for fault in caught.value.faults] == [
            "contilab data import cifar10",
            "contilab data import cifar100",
        ]
        assert caught.value.exit_code == 2

    def test_fashion(self) -> None:
        """The comparison with other frameworks trains exactly as they do."""
        text = next(path for path in MANIFESTS if path.stem == "fashion").read_text(encoding="utf-8")
        study = expand(resolve(text, place="fashion", values=(), menu=catalog_menu()), catalog_menu())
        run = study.runs[study.cells[1].runs[0]]

        assert [(cell.method, len(cell.runs)) for cell in study.cells] == [("naive", 8), ("er", 8)]
        assert (run.benchmark.scenario, run.benchmark.validation, run.benchmark.class_mask) == ("class", 0.0, "all")
        assert (run.model.settings["hidden"], run.optim.name, run.optim.settings["lr"]) == ([400, 400], "sgd", 0.05)
        assert (run.optim.settings["momentum"], run.optim.settings["weight_decay"]) == (0.0, 0.0)
        assert (run.train.epochs, run.train.batch) == (1, 32)
        assert run.memory
        assert (run.memory.total, run.memory.batch) == (500, 32)
