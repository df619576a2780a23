import json
from math import prod
from pathlib import Path

import numpy as np
import pytest

from contilab.data.cache import Cache, Named
from contilab.errors import Fault, ManifestError
from contilab.manifest.resolve import resolve
from contilab.plan.expand import Expanded, expand
from contilab.plan.menu import catalog_menu
from contilab.spec.numerics import ENGINE
from contilab.spec.run import run_from

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


def put_shape(cache: Cache, name: str, classes: int) -> None:
    """Let *cache* have a file of the shape of CIFAR without its pictures: planning reads the header and the test labels."""
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
        file.seek(8 + len(text) + begin)  # what is passed over is a hole of the file system
        file.write((np.arange(10_000) % classes).astype("<i8").tobytes())


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
