"""Claims about reading what others write and remove."""

import errno
import os

import pytest

from contilab.disk.read import beginning, names, read_bytes, read_file, read_table


@pytest.fixture
def stale(monkeypatch):
    """Let the next files that are read meet a stale handle some times; return the list of calls."""

    def install(times):
        opened, calls = os.open, []

        def open_(path, flags):
            calls.append(path)
            if len(calls) <= times:
                raise OSError(errno.ESTALE, "stale file handle")
            return opened(path, flags)

        monkeypatch.setattr(os, "open", open_)
        return calls

    return install


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
        ("data", "table"),
        [(b'{"a": 1}', {"a": 1}), (b'{"a": ', {}), (b"[1]", {}), (b"", {}), (b"\xff", {}), (b"[" * 100_000, {})],
    )
    def test_table(self, tmp_path, data, table):
        """Half a JSON file, one that holds no object, or one that is nested too deeply, is an empty table."""
        (tmp_path / "file").write_bytes(data)

        assert read_table(tmp_path / "file") == table

    def test_pipe(self, tmp_path):
        """A pipe that somebody left there is empty, and nobody waits for its writer."""
        os.mkfifo(tmp_path / "pipe")

        assert read_bytes(tmp_path / "pipe") == b""

    def test_beginning(self, tmp_path):
        """Of a huge file only so much is read as was asked for."""
        (tmp_path / "huge").write_bytes(b"abc")
        os.truncate(tmp_path / "huge", 2**40)

        assert beginning(tmp_path / "huge", 4) == b"abc\0"

    @pytest.mark.parametrize("kind", ["directory", "loop", "below a file"])
    def test_something_else(self, tmp_path, kind):
        """What is no file, but in the place of one, is none."""
        path = tmp_path / "name"
        if kind == "directory":
            path.mkdir()
        elif kind == "loop":
            path.symlink_to("name")
        else:
            path.touch()
            path = path / "name"

        assert read_file(path) is None
        assert read_table(path) == {}

    def test_stale_handle_is_opened_again(self, tmp_path, stale):
        """A stale handle is tried again and then read."""
        (tmp_path / "name").write_bytes(b"content")
        calls = stale(2)

        assert read_bytes(tmp_path / "name") == b"content"
        assert len(calls) == 3

    def test_stale_for_good_is_gone(self, tmp_path, stale):
        """A handle that stays stale means that the file is gone."""
        (tmp_path / "name").write_bytes(b"content")
        calls = stale(99)

        assert read_bytes(tmp_path / "name") is None
        assert len(calls) == 3

    def test_other_faults_are_raised(self, tmp_path):
        """What is no file at all is an error."""
        with pytest.raises(IsADirectoryError):
            read_bytes(tmp_path)
