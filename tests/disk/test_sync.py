"""Claims about durable directories."""

import errno
import os
from pathlib import Path

import pytest

from contilab.disk.sync import make_dir, sync_dir, write_synced


class TestMakeDir:
    """`make_dir` makes a directory with its parents."""

    def test_nested_and_again(self, tmp_path):
        """Parents are made, and an existing directory is fine."""
        make_dir(tmp_path / "a" / "b" / "c")
        make_dir(tmp_path / "a" / "b" / "c")

        assert (tmp_path / "a" / "b" / "c").is_dir()

    def test_file_in_the_way(self, tmp_path):
        """A file of that name is an error."""
        (tmp_path / "a").touch()

        with pytest.raises(FileExistsError):
            make_dir(tmp_path / "a")

    def test_where_nothing_can_be_made(self, tmp_path, monkeypatch):
        """A file system that denies new directories with "no such file", as /proc does, is an error, not an endless search."""

        def deny(path):
            if not path.is_dir():
                raise FileNotFoundError(2, "no such file or directory", str(path))
            raise FileExistsError(17, "file exists", str(path))

        monkeypatch.setattr(Path, "mkdir", deny)

        with pytest.raises(FileNotFoundError):
            make_dir(tmp_path / "a" / "b")


class TestWriteSynced:
    """`write_synced` makes a file."""

    def test_full_disk_names_the_file(self, tmp_path, monkeypatch):
        """Which file did not fit is known, though the system does not say it."""

        def fsync(handle):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", fsync)

        with pytest.raises(OSError, match=r"No space left on device: .*name"):
            write_synced(tmp_path / "name", b"data")


class TestSyncDir:
    """`sync_dir` flushes names."""

    @pytest.mark.parametrize(("number", "is_raised"), [(errno.EINVAL, False), (errno.EIO, True)])
    def test_only_the_unable_are_excused(self, tmp_path, monkeypatch, number, is_raised):
        """A file system that cannot sync directories is excused; a failed sync is not."""

        def fsync(handle):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", fsync)
        try:
            sync_dir(tmp_path)
        except OSError as error:
            raised = error.errno
        else:
            raised = None

        assert raised == (number if is_raised else None)
