"""From files to training: every form in which people have data is imported, verified, and trained on."""

import gzip
import hashlib
import io
import os
import pickle
import runpy
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch

from contilab.catalog import entry
from contilab.cli.app import app
from contilab.cli.main import guarded
from contilab.data import published, split_cifar10, split_mnist, split_tinyimagenet
from contilab.data.batch_set import BatchFile
from contilab.data.cifar import PIXELS, binary, pickled
from contilab.data.digest import digest_of
from contilab.data.folder_set import FolderSet
from contilab.data.importing import import_data, read_known
from contilab.engine.executions.loop import loop
from contilab.engine.setup import learner_of, prepare
from contilab.engine.train import train_group
from contilab.engine.watch import silent
from contilab.records.outcome import Outcome
from contilab.spec.run import Run
from contilab.spec.sections import Benchmark, Data, Eval, Numerics, Plugin, Train

TEST_DATA = os.environ.get("CONTILAB_TEST_DATA")
TRAIN, TEST, CLASSES = 16, 8, 4
BATCH_NAMES = ("data_batch_1", "test_batch")
IDX_NAMES = [file.name for file in published.MNIST.files]

Files = dict[str, bytes]


def images(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images of training and test data, and of each the same number in every class."""
    values = np.random.default_rng(0).integers(0, 256, (TRAIN + TEST, *shape), dtype=np.uint8)
    return values, (np.arange(TRAIN + TEST) % CLASSES).astype(np.uint8)


def parts(*shape: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return training and test data."""
    values, labels = images(*shape)
    return [(values[:TRAIN], labels[:TRAIN]), (values[TRAIN:], labels[TRAIN:])]


def binary_files() -> Files:
    """Return the small set in CIFAR's binary form."""
    rows = (np.hstack([labels[:, None], values]) for values, labels in parts(PIXELS))
    return {f"{name}.bin": part.tobytes() for name, part in zip(BATCH_NAMES, rows, strict=True)}


def python_files() -> Files:
    """Return the small set in CIFAR's python form."""
    tables = ({b"data": values, b"labels": labels.tolist()} for values, labels in parts(PIXELS))
    return {name: pickle.dumps(table, 2) for name, table in zip(BATCH_NAMES, tables, strict=True)}


def idx_files() -> Files:
    """Return the small set in IDX files."""
    arrays = [array for part in parts(28, 28) for array in part]
    heads = (bytes([0, 0, 8, each.ndim]) + np.array(each.shape, ">i4").tobytes() for each in arrays)
    return {name: head + each.tobytes() for name, head, each in zip(IDX_NAMES, heads, arrays, strict=True)}


def array_file(save: Callable[..., Any]) -> bytes:
    """Return the small set as four arrays, written by *save*."""
    (train, labels), (test, test_labels) = parts(3, 4, 4)
    arrays = {"train_inputs": train, "train_labels": labels, "test_inputs": test, "test_labels": test_labels}
    out = io.BytesIO()
    if save is safetensors.numpy.save:
        return bytes(save(arrays))
    save(out, **arrays)
    return out.getvalue()


def pictures(kind: str) -> list[bytes]:
    """Return the images of the small set as picture files."""
    image_module = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    files = []
    for values in images(4, 4, 3)[0]:
        out = io.BytesIO()
        image_module.fromarray(values).save(out, kind)
        files.append(out.getvalue())
    return files


def class_folders() -> Files:
    """Return the small set as folders of classes."""
    files = enumerate(pictures("PNG"))
    return {f"{'train' if place < TRAIN else 'test'}/c{place % CLASSES}/{place}.png": file for place, file in files}


def tiny_folders() -> Files:
    """Return the small set as TinyImageNet comes: training data by class, validation pictures in one folder with a table."""
    files = pictures("JPEG")
    rows = "".join(f"val_{place}.JPEG\tc{place % CLASSES}\t0\t0\t3\t3\n" for place in range(TRAIN, TRAIN + TEST))
    train = {f"train/c{place % CLASSES}/images/{place}.JPEG": file for place, file in enumerate(files[:TRAIN])}
    test = {f"val/images/val_{TRAIN + place}.JPEG": file for place, file in enumerate(files[TRAIN:])}
    return {**train, **test, "val/val_annotations.txt": rows.encode(), "test/images/test_0.JPEG": files[0]}


def below(folder: str, files: Files) -> Files:
    """Return *files* in *folder*."""
    return {f"{folder}/{name}": content for name, content in files.items()}


def zipped(files: Files) -> bytes:
    """Return *files* as a zip."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def tarred(files: Files) -> bytes:
    """Return *files* as a packed tar."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


PYTHON, BINARY, TINY = "cifar-10-batches-py", "cifar-10-batches-bin", "tiny-imagenet-200"
FORMS: dict[str, tuple[str, Callable[[], Files]]] = {  # the name to import them by, and what lies in the folder
    "CIFAR-10 in python": ("cifar10", lambda: below(PYTHON, python_files())),
    "CIFAR-10 in python, packed": ("cifar10", lambda: {"cifar-10-python.tar.gz": tarred(below(PYTHON, python_files()))}),
    "CIFAR-10 in binary": ("cifar10", lambda: below(BINARY, binary_files())),
    "CIFAR-10 in binary, packed": ("cifar10", lambda: {"cifar-10-binary.tar.gz": tarred(below(BINARY, binary_files()))}),
    "MNIST, raw": ("mnist", lambda: below("MNIST/raw", idx_files())),
    "MNIST, gz": ("mnist", lambda: {f"{name}.gz": gzip.compress(content) for name, content in idx_files().items()}),
    "TinyImageNet": ("tinyimagenet", lambda: below(TINY, tiny_folders())),
    "TinyImageNet, zip": ("tinyimagenet", lambda: {f"{TINY}.zip": zipped(below(TINY, tiny_folders()))}),
    "folders of classes": ("mine", class_folders),
    "folders of classes, zip": ("mine", lambda: {"own.zip": zipped(class_folders())}),
    "npz": ("mine", lambda: {"own.npz": array_file(np.savez_compressed)}),
    "safetensors": ("mine", lambda: {"own.safetensors": array_file(safetensors.numpy.save)}),
}
BENCHMARKS = {"cifar10": "split_cifar10", "mnist": "split_mnist", "tinyimagenet": "split_tinyimagenet", "mine": "npz"}


def put(folder: Path, files: Files) -> Path:
    """Write *files* into *folder*, and return it, or the one file if it is an archive or holds arrays of one's own."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder / next(iter(files)) if next(iter(files)).startswith("own.") else folder


@pytest.fixture
def _small_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the published sets be the small one, in content too."""
    sizes: dict[str, Any] = {"classes": CLASSES, "train_samples": TRAIN, "test_samples": TEST}
    python, packed = published.CIFAR10.forms
    forms = [
        form._replace(
            parse=parse,
            train=(BatchFile(names[0], TRAIN, hashlib.sha256(files[names[0]]).hexdigest()),),
            test=(BatchFile(names[1], TEST, hashlib.sha256(files[names[1]]).hexdigest()),),
        )
        for form, parse, files in (
            (python, pickled(CLASSES, "labels"), python_files()),
            (packed, binary(CLASSES, 1), binary_files()),
        )
        for names in [tuple(files)]
    ]
    cifar = published.CIFAR10._replace(forms=tuple(forms), **sizes)
    known = [
        file._replace(size=len(content), sha256=hashlib.sha256(content).hexdigest())
        for file, content in zip(published.MNIST.files, idx_files().values(), strict=True)
    ]
    mnist = published.MNIST._replace(files=tuple(known), **sizes)  # type: ignore[arg-type]
    tiny: FolderSet = published.TINYIMAGENET._replace(image_shape=(3, 4, 4), **sizes)
    for module, name, small in (
        (split_cifar10, "CIFAR10", cifar),
        (split_mnist, "MNIST", mnist),
        (split_tinyimagenet, "TINYIMAGENET", tiny),
    ):
        monkeypatch.setattr(module, name, small)
        monkeypatch.setitem(published.KNOWN, small.name, small)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run a command line over an empty cache and return exit code and standard output."""
    monkeypatch.setenv("CONTILAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CONTILAB_DATA", "")
    return lambda *words: (guarded(lambda: app([str(word) for word in words])), capsys.readouterr().out)


def trained(name: str, **benchmark: Any) -> tuple[Data, Outcome]:
    """Return the data that the benchmark *name* gets, and what a small perceptron leaves that was trained on them."""
    spec = Benchmark(name=name, scenario="class", tasks=2, validation=0.0, **benchmark)
    source = entry("benchmark", name).make(spec)
    run = Run(
        benchmark=spec,
        data=source.data,
        model=Plugin(name="mlp", settings={"hidden": [4]}),
        optim=Plugin(name="sgd", settings={"lr": 0.01}),
        train=Train(epochs=1, batch=4),
        method=Plugin(name="naive"),
        memory=None,
        eval=Eval(),
        engine=Numerics(),
        seed=0,
    )
    setup = prepare([run], learner_of(run, source), source.load(), device=torch.device("cpu"))
    return source.data, train_group(setup, loop, silent())[0]


@pytest.mark.usefixtures("_small_sets")
class TestForms:
    """The small set in every form."""

    @pytest.mark.parametrize("form", FORMS)
    def test_imported_verified_and_trained_on(self, cli: Callable[..., Any], tmp_path: Path, form: str) -> None:
        """One command takes the files, another finds them as they were taken, and a run trains on just these."""
        name, files = FORMS[form]
        imported = cli("data", "import", name, put(tmp_path / "files", files()))
        digest = imported[1].splitlines()[0].rpartition(" ")[2]
        verified = cli("data", "verify")
        data, outcome = trained(BENCHMARKS[name], data=name if name == "mine" else "default")

        assert (imported[0], verified[0]) == (0, 0)
        assert verified[1].endswith(f"{digest} is what is kept\n")
        assert data.digest == digest
        assert outcome.record.state == "finished"
        assert len(outcome.tensors["target"]) == TEST

    @pytest.mark.parametrize("pair", [("CIFAR-10 in python", "CIFAR-10 in binary"), ("MNIST, raw", "MNIST, gz")])
    def test_the_form_makes_no_difference(self, tmp_path: Path, pair: tuple[str, str]) -> None:
        """The same samples in two forms have one digest, so runs on them one address."""
        digests = set()
        for number, form in enumerate(pair):
            name, files = FORMS[form]
            reading = read_known(published.KNOWN[name], put(tmp_path / str(number), files()))
            digests.add(digest_of(reading.dataset))

        assert len(digests) == 1


class TestPhotographs:
    """The 60,000 photographs of CIFAR-10, from their JPEG copy."""

    @pytest.mark.slow
    @pytest.mark.timeout(300)  # decoding them takes 20 s alone
    @pytest.mark.skipif(not TEST_DATA, reason="CONTILAB_TEST_DATA is not set")
    def test_both_official_layouts_in_full(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Binary and python files of all of them are one data set, said not to be the published one, and trained on."""
        monkeypatch.setenv("CONTILAB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(sys, "argv", ["make", str(tmp_path / "binary")])
        runpy.run_path(str(Path(TEST_DATA or "") / "make_cifar10_binary.py"), run_name="__main__")
        (tmp_path / "python").mkdir()
        for path in (tmp_path / "binary" / BINARY).glob("*.bin"):
            rows = np.fromfile(path, np.uint8).reshape(-1, 1 + PIXELS)
            table = {b"data": rows[:, 1:], b"labels": rows[:, 0].tolist()}
            (tmp_path / "python" / path.stem).write_bytes(pickle.dumps(table, 4))
        environ = {"CONTILAB_CACHE": str(tmp_path / "cache")}

        first = import_data("cifar10", tmp_path / "binary", environ)
        second = import_data("cifar10", tmp_path / "python", environ, own_name="jpeg-copy")
        data, outcome = trained("split_cifar10", train_per_task=40, test_per_task=20)

        assert (first.named.shown, first.named.is_published) == ("cifar10 (not the published files)", False)
        assert data == Data(name="cifar10 (not the published files)", digest=first.named.digest)
        assert second.named.digest == first.named.digest
        assert (outcome.record.state, len(outcome.tensors["target"])) == ("finished", 40)
