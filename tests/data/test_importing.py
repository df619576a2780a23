"""Importing and preparing data: names, what is published and what is not, and that a refusal leaves nothing behind."""

import errno
import gzip
import hashlib
import shutil
import struct
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contilab.data import importing, published
from contilab.data.batch_set import BatchFile, BatchSet, Form
from contilab.data.cache import Cache, open_cache
from contilab.data.cifar import binary
from contilab.data.download import Remote, sha256_is
from contilab.data.idx_file import KnownFile
from contilab.data.image_set import ImageSet
from contilab.data.importing import import_data, load_published, prepare
from contilab.errors import ContilabError, DataError, InputError, UsageError

FILES = {
    name: np.hstack([np.array([[0], [1]], np.uint8), np.full((2, 3072), value, np.uint8)]).tobytes()
    for name, value in (("train.bin", 7), ("test.bin", 9))
}
KNOWN = {name: BatchFile(name, 2, hashlib.sha256(content).hexdigest()) for name, content in FILES.items()}
HOSTILE = gzip.compress(tarfile.TarInfo("../x").tobuf() + bytes(1024))
IDX_NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def packed_files(folder: Path) -> Path:
    """Write the published archive of the small set into *folder* and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "small-bin").mkdir()
    for name, content in FILES.items():
        (folder / "small-bin" / name).write_bytes(content)
    return Path(shutil.make_archive(str(folder / "small"), "gztar", folder, "small-bin"))


def idx(array: np.ndarray) -> bytes:
    """Return the IDX file of *array*."""
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}i", *array.shape) + array.tobytes()


def idx_files(shift: int = 0) -> dict[str, bytes]:
    """Return the four files of a tiny image set."""
    pixels, labels = np.arange(60, dtype=np.uint8) + np.uint8(shift), (np.arange(10) % 2).astype(np.uint8)
    arrays = (pixels[:36].reshape(6, 2, 3), labels[:6], pixels[36:].reshape(4, 2, 3), labels[6:])
    return dict(zip(IDX_NAMES, map(idx, arrays), strict=True))


def put(folder: Path, files: dict[str, bytes]) -> Path:
    """Write *files* into *folder* and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def left(root: Path) -> list[str]:
    """Return the files in the cache below *root*, locks left out."""
    return sorted(path.name for path in root.rglob("*") if path.is_file() and path.suffix != ".lock")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return the environment of an empty cache."""
    return {"CONTILAB_CACHE": str(tmp_path / "cache")}


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a small set of batch files known, and return its published archive."""
    archive = packed_files(tmp_path / "published")
    remote = Remote("small.tar.gz", (), 10**6, sha256_is(hashlib.sha256(archive.read_bytes()).hexdigest()))
    form = Form("small-bin", ("small.tar.gz",), binary(2, 1), (KNOWN["train.bin"],), (KNOWN["test.bin"],))
    known = BatchSet("small", (3, 32, 32), 2, 2, 2, (form,), remote, ("small",))
    monkeypatch.setitem(published.KNOWN, "small", known)
    return archive


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImageSet:
    """Make a tiny set of IDX files known."""
    facts = tuple(KnownFile(name, len(content), hashlib.sha256(content).hexdigest()) for name, content in idx_files().items())
    known = ImageSet("tiny", facts, (2, 3), 6, 4, 2, "", folders=("tiny",))  # type: ignore[arg-type]
    reading = importing.read_known(known, put(tmp_path / "made", idx_files()))
    known = known._replace(digest=importing.digest_of(reading.dataset))
    monkeypatch.setitem(published.KNOWN, "tiny", known)
    return known


class TestImport:
    """`contilab data import`."""

    def test_published_content_has_its_own_name(self, small: Path, environ: dict[str, str]) -> None:
        """The published files are taken as what they are, from a folder or the archive, under one digest."""
        first = import_data("small", small, environ)
        second = import_data("small", small.parent, environ)

        assert first.named == second.named
        assert (first.named.shown, first.named.is_published, first.replaced) == ("small", True, "")
        assert left(Path(environ["CONTILAB_CACHE"])) == sorted([f"{first.named.digest}.safetensors", "small.json"])

    def test_other_content_is_shown_as_such(self, small: Path, environ: dict[str, str], tmp_path: Path) -> None:
        """Files of the right form with other content have another digest and a name that says so, or the given one."""
        other = put(tmp_path / "other", {**FILES, "test.bin": FILES["test.bin"].replace(b"\x09", b"\x08")})

        plain = import_data("small", other, environ)
        own = import_data("small", other, environ, own_name="mine")
        true = import_data("small", small, environ)

        assert (plain.named.shown, own.named.shown) == ("small (not the published files)", "mine")
        assert (plain.named.of, own.named.of, own.named.is_published) == ("small", "small", False)
        assert plain.named.digest == own.named.digest != true.named.digest
        assert true.replaced == plain.named.digest

    @pytest.mark.parametrize(
        ("cause", "kind"),
        [(OSError(errno.EIO, "I/O error"), DataError), (MemoryError(), DataError), (OSError("bad gzip"), InputError)],
    )
    def test_faults_of_the_machine(
        self, small: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, cause: Exception, kind: type[Exception]
    ) -> None:
        """What fails for the machine is no fault of the files that were named; what fails for its content is."""

        def unreadable(*_arguments: Any, **_more: Any) -> None:
            raise DataError("x", "cannot be read") from cause

        monkeypatch.setattr(importing, "read_known", unreadable)

        with pytest.raises(ContilabError) as caught:
            import_data("small", small, environ)

        assert caught.type is kind

    def test_published_content_is_not_replaced_by_other(self, small: Path, environ: dict[str, str], tmp_path: Path) -> None:
        """Where the published files are, others need a name of their own."""
        import_data("small", small, environ)
        other = put(tmp_path / "other", {**FILES, "test.bin": FILES["test.bin"].replace(b"\x09", b"\x08")})

        with pytest.raises(InputError, match="the content is not the published one of small, which is in the cache") as caught:
            import_data("small", other, environ)

        assert caught.value.faults[0].hint == "--as NAME keeps both"

    @pytest.mark.parametrize(
        "files",
        [
            {},
            {"train.bin": FILES["train.bin"]},
            {**FILES, "test.bin": b"cut"},
            {"page.html": b"<html>"},
            {"small.tar.gz": b"<html>"},
            {"small.tar.gz": HOSTILE},
            {"small.tar.gz": HOSTILE[:-20]},
        ],
    )
    def test_refusal_leaves_nothing(
        self, small: Path, environ: dict[str, str], tmp_path: Path, files: dict[str, bytes]
    ) -> None:
        """Whatever is refused, the cache holds nothing of it."""
        with pytest.raises(InputError, match="small"):
            import_data("small", put(tmp_path / "wrong small", files), environ)

        assert left(Path(environ["CONTILAB_CACHE"])) == []

    def test_arrays_of_the_form_of_a_set(self, small: Path, environ: dict[str, str], tmp_path: Path) -> None:
        """Arrays with shape, classes and counts of a published set may stand for it; others are refused with both forms."""
        images = np.zeros((2, 3, 32, 32), np.uint8)
        labels = np.array([0, 1])
        arrays = {"train_inputs": images, "train_labels": labels, "test_inputs": images, "test_labels": labels}
        np.savez(tmp_path / "good.npz", **arrays)
        floats = images.astype(np.float32)
        np.savez(tmp_path / "cut.npz", **{**arrays, "test_inputs": images[:1], "test_labels": labels[:1]})
        np.savez(tmp_path / "floats.npz", **{**arrays, "train_inputs": floats, "test_inputs": floats})

        assert import_data("small", tmp_path / "good.npz", environ).named.shown == "small (not the published files)"
        for name, found in (("cut", "2 + 1 uint8"), ("floats", "2 + 2 float")):
            with pytest.raises(InputError) as caught:
                import_data("small", tmp_path / f"{name}.npz", environ)
            assert f"expected 2 + 2 uint8 inputs of 3 x 32 x 32 in 2 classes, found {found} inputs" in str(caught.value)

    def test_arrays_of_ones_own(self, environ: dict[str, str], tmp_path: Path) -> None:
        """Any name that is no published set stands for one's own data."""
        images, labels = np.zeros((2, 5), np.float32), np.array([0, 1])
        np.savez(tmp_path / "own.npz", train_inputs=images, train_labels=labels, test_inputs=images, test_labels=labels)
        path = (tmp_path / "own.npz").rename(tmp_path / "own.NPZ")

        taken = import_data("mine", path, environ)

        assert (taken.named.shown, taken.named.of) == ("mine", "")
        assert open_cache(environ).shape(taken.named.digest).input_shape == (5,)

    @pytest.mark.parametrize("packed", [False, True])
    def test_idx_files(self, tiny: ImageSet, environ: dict[str, str], tmp_path: Path, packed: bool) -> None:
        """IDX files, raw or packed, below the folders that torchvision and others use, are the published set."""
        files = {f"{name}.gz": gzip.compress(content) for name, content in idx_files().items()} if packed else idx_files()

        taken = import_data("tiny", put(tmp_path / "root" / "tiny", files).parent, environ)

        assert (taken.named.digest, taken.named.is_published) == (tiny.digest, True)

    def test_other_idx_files(self, tiny: ImageSet, environ: dict[str, str], tmp_path: Path) -> None:
        """IDX files of another set of the same form are taken under a name that says so."""
        taken = import_data("tiny", put(tmp_path / "other", idx_files(3)), environ)

        assert taken.named.shown == "tiny (not the published files)"
        assert taken.named.digest != tiny.digest

    def test_size_of_what_are_no_pictures(self, small: Path, environ: dict[str, str]) -> None:
        """A size that would change nothing is refused, and nothing is kept."""
        with pytest.raises(UsageError, match="holds no files of pictures"):
            import_data("small", small, environ, size=8)

        assert left(Path(environ["CONTILAB_CACHE"])) == []

    def test_too_little_memory_is_a_lack_of_the_machine(self, environ: dict[str, str], tmp_path: Path) -> None:
        """Data larger than memory are no fault of the input: exit code 4, for own data and those in the form of a set."""
        labels = np.array([0, 1])
        np.savez(tmp_path / "x.npz", train_inputs=np.eye(2), train_labels=labels, test_inputs=np.eye(2), test_labels=labels)

        for name in ("mine", "cifar10"):
            with pytest.raises(DataError, match="bytes of memory, and 99 are left"):
                import_data(name, tmp_path / "x.npz", environ, left=lambda: 99)

    @pytest.mark.parametrize(
        ("name", "own_name"),
        [("../x", ""), ("", ""), ("digits", ""), ("default", ""), ("small", "cifar10"), ("small", "A"), ("mine", "other")],
    )
    def test_names_that_cannot_be(self, small: Path, environ: dict[str, str], name: str, own_name: str) -> None:
        """Names that lead out, are taken or mean nothing are the user's mistake."""
        with pytest.raises(UsageError):
            import_data(name, small, environ, own_name=own_name)

    def test_path_that_is_not_there(self, environ: dict[str, str], tmp_path: Path) -> None:
        """A path that does not exist is said before anything else."""
        with pytest.raises(InputError, match="there is no such file or folder"):
            import_data("cifar10", tmp_path / "none", environ)


PLACES = {  # what torchvision and Avalanche call the folders below the one they are given, and one of the files there
    "mnist": (("MNIST/raw", "mnist/MNIST/raw"), "train-labels-idx1-ubyte"),
    "fashion-mnist": (("FashionMNIST/raw", "fashionmnist/FashionMNIST/raw"), "t10k-images-idx3-ubyte.gz"),
    "cifar10": (("cifar-10-batches-py", "cifar10/cifar-10-batches-py"), "data_batch_3"),
    "cifar100": (("cifar-100-python", "cifar100/cifar-100-python"), "test"),
    "tinyimagenet": (("tiny-imagenet-200", "tinyimagenet/tiny-imagenet-200"), "train/n1/images/n1_0.JPEG"),
}


class TestPlaces:
    """Where others put the published sets."""

    @pytest.mark.parametrize(("name", "place"), [(name, place) for name, (places, _) in PLACES.items() for place in places])
    def test_folders_of_other_libraries_are_looked_into(self, tmp_path: Path, name: str, place: str) -> None:
        """One file in the folder that torchvision or Avalanche makes is found, and refused as what is not all of the set."""
        file = tmp_path / place / PLACES[name][1]
        put(file.parent, {file.name: b""})

        with pytest.raises(DataError) as caught:
            importing.read_known(published.KNOWN[name], tmp_path)

        assert caught.value.faults[0].place.startswith(str(tmp_path / place))


class Quiet(SimpleHTTPRequestHandler):
    """Serves the published folder and counts what is asked for."""

    asked: list[str]
    folder: str

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, directory=self.folder)

    def do_GET(self) -> None:
        """Count and serve."""
        self.asked.append(self.path)
        super().do_GET()

    def log_message(self, *args: object) -> None:
        """Stay silent."""


@pytest.fixture
def served(small: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Serve the published archive, and return what was asked for."""
    Quiet.asked, Quiet.folder = [], str(small.parent)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    known: Any = published.KNOWN["small"]
    url = f"http://127.0.0.1:{server.server_address[1]}/small.tar.gz"
    monkeypatch.setitem(published.KNOWN, "small", known._replace(remote=known.remote._replace(urls=(url,))))
    yield Quiet.asked
    server.shutdown()
    thread.join()
    server.server_close()


PREPARE = """
import sys
from contilab.data import published
from contilab.data.batch_set import BatchFile, BatchSet, Form
from contilab.data.cifar import binary
from contilab.data.download import Remote, sha256_is
from contilab.data.importing import prepare
url, archive, train, test, cache = sys.argv[1:]
files = [(BatchFile(name, 2, sha256),) for name, sha256 in (("train.bin", train), ("test.bin", test))]
remote = Remote("small.tar.gz", (url,), 10**6, sha256_is(archive))
form = Form("small-bin", (), binary(2, 1), *files)
published.KNOWN["small"] = BatchSet("small", (3, 32, 32), 2, 2, 2, (form,), remote)
print("ready", flush=True)
sys.stdin.readline()
print(prepare("small", {"CONTILAB_CACHE": cache}).named.digest)
"""


class TestPrepare:
    """`contilab data prepare`."""

    def test_downloads_once(self, served: list[str], environ: dict[str, str]) -> None:
        """The archive is downloaded, converted and removed; the second time it is there."""
        first, second = prepare("small", environ), prepare("small", environ)

        assert first.named == second.named
        assert (first.named.is_published, second.place) == (True, "")
        assert served == ["/small.tar.gz"]
        assert left(Path(environ["CONTILAB_CACHE"])) == sorted([f"{first.named.digest}.safetensors", "small.json"])

    @pytest.mark.slow
    def test_two_processes_at_once_download_and_convert_once(
        self, small: Path, served: list[str], environ: dict[str, str], tmp_path: Path
    ) -> None:
        """Two processes that prepare the same data at once make one download and one file, and both have it."""
        known: Any = published.KNOWN["small"]
        sums = [hashlib.sha256(content).hexdigest() for content in (small.read_bytes(), *FILES.values())]
        command = [sys.executable, "-c", PREPARE, known.remote.urls[0], *sums, environ["CONTILAB_CACHE"]]
        pipe = subprocess.PIPE
        workers = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(2)]
        for worker in workers:
            assert worker.stdout
            assert worker.stdout.readline() == "ready\n"
        outputs = [worker.communicate("go\n")[0] for worker in workers]

        assert [worker.returncode for worker in workers] == [0, 0]
        assert outputs[0] == outputs[1] != ""
        assert served == ["/small.tar.gz"]
        assert len(left(tmp_path / "cache")) == 2

    @pytest.mark.parametrize("place", ["small.tar.gz", "small/small-bin"])
    def test_looks_into_folders_of_data_first(self, small: Path, environ: dict[str, str], tmp_path: Path, place: str) -> None:
        """What lies in a folder of CONTILAB_DATA is not downloaded."""
        (tmp_path / "data" / place).parent.mkdir(parents=True)
        source = small if place.endswith("gz") else small.parent / "small-bin"
        (tmp_path / "data" / place).symlink_to(source)

        taken = prepare("small", {**environ, "CONTILAB_DATA": f"{tmp_path / 'none'}:{tmp_path / 'data'}"})

        assert taken.named.is_published
        assert str(tmp_path / "data") in taken.place

    def test_offline_names_the_import(self, small: Path, environ: dict[str, str]) -> None:
        """Where it can be had from nowhere, the message names the import command."""
        with pytest.raises(DataError, match="there is no mirror") as caught:
            prepare("small", environ)

        assert "contilab data import small DIR" in caught.value.faults[0].hint

    def test_unknown_set(self, environ: dict[str, str]) -> None:
        """A name that is no published set is the user's mistake, told with those there are."""
        with pytest.raises(UsageError, match='"imagenet" is no published set') as caught:
            prepare("imagenet", environ)

        assert "tinyimagenet" in caught.value.faults[0].hint


class TestLoadPublished:
    """Image sets that a runner looks for by itself."""

    def test_is_cached_and_then_needs_no_files(self, tiny: ImageSet, environ: dict[str, str], tmp_path: Path) -> None:
        """Files found in CONTILAB_DATA are cached; the next load needs the cache only."""
        folder = put(tmp_path / "data", idx_files())
        first = load_published(tiny, {**environ, "CONTILAB_DATA": str(folder)})
        shutil.rmtree(folder)

        second = load_published(tiny, environ)

        assert first.train_inputs.equal(second.train_inputs)
        assert Cache(Path(environ["CONTILAB_CACHE"])).has(tiny.digest)

    def test_cache_that_cannot_be_written_costs_no_truth(self, tiny: ImageSet, tmp_path: Path) -> None:
        """Where the cache cannot be written the files are used as they are."""
        (tmp_path / "file").write_bytes(b"")
        environ = {"CONTILAB_CACHE": str(tmp_path / "file"), "CONTILAB_DATA": str(put(tmp_path / "data", idx_files()))}

        assert load_published(tiny, environ).test_labels.tolist() == [0, 1, 0, 1]

    def test_other_content_is_refused(self, tiny: ImageSet, environ: dict[str, str], tmp_path: Path) -> None:
        """A folder of CONTILAB_DATA with other content is refused: only an import takes it, under another name."""
        with pytest.raises(DataError, match="the content is not the published one of tiny"):
            load_published(tiny, {**environ, "CONTILAB_DATA": str(put(tmp_path / "data", idx_files(3)))})

        assert left(Path(environ["CONTILAB_CACHE"])) == []
