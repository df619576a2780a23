"""Claims about reading what others write and remove."""

import errno
from pathlib import Path

import pytest

from contilab.disk.read import names, read_bytes, read_table


def stale(times, answer):
    """Return a reader that meets a stale handle *times* times, then gives *answer*; and the list of its calls."""
    calls = []

    def read(path):
        calls.append(path)
        if len(calls) <= times:
            raise OSError(errno.ESTALE, "stale file handle")
        return answer

    return read, calls


class TestReading:
    """Gone is an answer."""

    def test_missing(self, tmp_path):
        """A missing file is None, or an empty table; a missing directory has no names."""
        assert read_bytes(tmp_path / "missing") is None
        assert read_table(tmp_path / "missing") == {}
        assert names(tmp_path / "missing") == []

    def test_names_leave_temps_out(self, tmp_path):
        """Names come sorted, without temps and the hidden files of network file systems."""
        for name in ("b", ".tmp-0", "a", ".nfs01"):
            (tmp_path / name).touch()

        assert names(tmp_path) == ["a", "b"]

    def test_wrong_kind(self, tmp_path):
        """A file in the place of a directory has no names; a directory in the place of a file is an empty table."""
        (tmp_path / "file").touch()

        assert names(tmp_path / "file") == []
        assert read_table(tmp_path) == {}

    @pytest.mark.parametrize(
        ("data", "table"), [(b'{"a": 1}', {"a": 1}), (b'{"a": ', {}), (b"[1]", {}), (b"", {}), (b"\xff", {})]
    )
    def test_table(self, tmp_path, data, table):
        """Half a JSON file, or one that holds no object, is an empty table."""
        (tmp_path / "file").write_bytes(data)

        assert read_table(tmp_path / "file") == table

    def test_stale_handle_is_opened_again(self, tmp_path, monkeypatch):
        """A stale handle is tried again and then read."""
        reader, calls = stale(2, b"content")
        monkeypatch.setattr(Path, "read_bytes", reader)

        assert read_bytes(tmp_path / "name") == b"content"
        assert len(calls) == 3

    def test_stale_for_good_is_gone(self, tmp_path, monkeypatch):
        """A handle that stays stale means that the file is gone."""
        reader, calls = stale(99, b"content")
        monkeypatch.setattr(Path, "read_bytes", reader)

        assert read_bytes(tmp_path / "name") is None
        assert len(calls) == 3

    def test_other_faults_are_raised(self, tmp_path):
        """What is no file at all is an error."""
        with pytest.raises(IsADirectoryError):
            read_bytes(tmp_path)
