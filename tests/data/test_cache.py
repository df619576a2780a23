"""The cache of data sets: content by its digest, written once and whole, checked when it is read."""

import errno
import os
import stat
import threading
import time
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from contilab.data import cache as cache_module
from contilab.data.cache import Cache, Named, is_name
from contilab.data.contract import Dataset
from contilab.data.digest import digest_of
from contilab.errors import DataError


def dataset(value: int = 0) -> Dataset:
    """Return a small data set."""
    inputs = torch.arange(value, value + 24, dtype=torch.uint8).reshape(4, 3, 2)
    return Dataset("small", inputs, torch.tensor([0, 1, 0, 1]), inputs[:2] + 1, torch.tensor([1, 0]), 2)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """Return an empty cache."""
    return Cache(tmp_path / "cache")


class TestContent:
    """Data sets by their digest."""

    def test_what_was_put_is_loaded(self, cache: Cache) -> None:
        """A data set comes back bit for bit under the digest of its content, and its shape is known without loading it."""
        digest = cache.put(dataset())
        loaded = cache.load(digest, "any name")

        assert digest == digest_of(dataset()) == digest_of(loaded)
        assert torch.equal(loaded.train_inputs, dataset().train_inputs)
        assert (loaded.name, loaded.classes) == ("any name", 2)
        assert cache.shape(digest) == ((3, 2), True, 2, 4, 2)

    def test_is_written_once(self, cache: Cache) -> None:
        """The same content again leaves the file as it is, and nothing else lies beside it."""
        path = cache.path(cache.put(dataset()))
        before = path.stat()

        cache.put(dataset()._replace(name="other name"))

        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
        assert list(cache.folder.iterdir()) == [path]

    def test_can_be_read_by_others(self, cache: Cache) -> None:
        """The file has the rights of the umask, so that another user of a shared store can read it."""
        old = os.umask(0o002)
        try:
            path = cache.path(cache.put(dataset()))
        finally:
            os.umask(old)

        assert stat.S_IMODE(path.stat().st_mode) == 0o664

    def test_is_mapped_into_memory(self, cache: Cache) -> None:
        """The tensors lie in the file's own pages, which all processes share."""
        loaded = cache.load(cache.put(dataset()), "small")

        maps = Path("/proc/self/maps").read_text(encoding="utf-8")
        starts = [int(line.split("-")[0], 16) for line in maps.splitlines() if ".safetensors" in line]
        assert any(start <= loaded.train_inputs.data_ptr() < start + 2**20 for start in starts)

    @pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "foreign"])
    def test_damaged_file_is_refused_and_put_mends_it(self, cache: Cache, damage: str) -> None:
        """A damaged file is refused by its path, also where safetensors reads it without a word; the data put again mend it."""
        path = cache.path(cache.put(dataset()))
        content = path.read_bytes()
        path.write_bytes({"flipped": content[:-1] + b"\x07", "cut": content[:-9], "empty": b"", "foreign": b"PK" * 99}[damage])

        with pytest.raises(DataError, match="the file is damaged") as caught:
            cache.load(digest_of(dataset()), "small")
        cache.put(dataset())

        assert caught.value.faults[0].place == str(path)
        assert path.read_bytes() == content

    def test_missing_file_is_refused(self, cache: Cache) -> None:
        """Data that are not there are refused by digest and folder, with the command that brings them."""
        with pytest.raises(DataError, match="the data with the digest 000000000000 are not in the cache") as caught:
            cache.load("0" * 64, "small")

        assert "contilab data import" in caught.value.faults[0].hint

    def test_folder_that_cannot_be_written_is_named(self, tmp_path: Path) -> None:
        """Where nothing can be written the message names the folder and CONTILAB_CACHE."""
        (tmp_path / "file").write_bytes(b"")

        with pytest.raises(DataError, match="cannot be written") as caught:
            Cache(tmp_path / "file").put(dataset())

        assert "CONTILAB_CACHE" in caught.value.faults[0].hint

    def test_what_killed_processes_left_is_removed_when_it_is_old(self, cache: Cache) -> None:
        """Half a file of a day ago goes with the next one that is written; that of another process at work stays."""
        cache.folder.mkdir(parents=True)
        old, new = cache.folder / ".tmp-old", cache.folder / ".tmp-new"
        for path in (old, new):
            path.write_bytes(b"half")
        os.utime(old, (0, 0))

        digest = cache.put(dataset())

        assert sorted(cache.folder.iterdir()) == [new, cache.path(digest)]

    def test_too_little_space_is_said_before_writing(self, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without room nothing is written, and the message says how much is needed and how much is free."""
        monkeypatch.setattr(cache_module.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 5})())

        with pytest.raises(DataError, match="no space left: needed 84 bytes, free 5"):
            cache.put(dataset())

        assert list(cache.folder.iterdir()) == []


class TestNames:
    """Names as pointers to content."""

    def test_name_stands_for_the_latest(self, cache: Cache) -> None:
        """A name can be moved to other content; both contents stay."""
        first, second = (
            Named("own", cache.put(dataset(value)), "", is_published=False, class_names=("a", "b")) for value in (0, 9)
        )

        cache.point("own", first)
        cache.point("own", second)

        assert cache.named("own") == second
        assert cache.names() == ("own",)
        assert cache.has(first.digest)

    @pytest.mark.parametrize("content", [None, b"", b"{}", b"[]", b'{"shown": 1', b"\xff"])
    def test_damaged_or_missing_name_stands_for_nothing(self, cache: Cache, content: bytes | None) -> None:
        """A pointer that is not there or damaged is no name."""
        if content is not None:
            (cache.folder / "names").mkdir(parents=True)
            (cache.folder / "names" / "own.json").write_bytes(content)

        assert cache.named("own") is None

    @pytest.mark.parametrize(
        ("name", "is_one"), [("own.2_b-c", True), ("", False), ("../x", False), ("A", False), ("a" * 41, False)]
    )
    def test_names_are_plain(self, name: str, is_one: bool) -> None:
        """Names are those of studies: no separators, no capitals, at most 40 letters."""
        assert is_name(name) == is_one


class TestAlone:
    """Two at once."""

    def test_cache_that_can_only_be_read_needs_no_lock(self, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the file system is read-only, what is there is used without a lock."""
        digest = cache.put(dataset())

        def acquire(_self: FileLock, **_more: object) -> None:
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr(FileLock, "acquire", acquire)

        with cache.alone("own"):
            assert cache.has(digest)

    def test_one_works_and_the_others_find_it_done(self, cache: Cache) -> None:
        """Of four that begin together one does the work; the others wait and find it done."""
        begin, worked = threading.Barrier(4), []

        def work() -> None:
            begin.wait()
            with cache.alone("own"):
                if cache.named("own") is None:
                    worked.append(threading.get_ident())
                    time.sleep(0.05)
                    cache.point("own", Named("own", cache.put(dataset()), "", is_published=False))

        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

        assert len(worked) == 1
        assert cache.names() == ("own",)
