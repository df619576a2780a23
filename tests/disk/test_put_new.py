"""Claims about exclusive creation."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from contilab.disk.put_new import put_all, put_new

RACER = """
import sys
from pathlib import Path
from contilab.disk.put_new import put_new
print("ready", flush=True)
for line in sys.stdin:
    print(int(put_new(Path(line.strip()), sys.argv[1].encode())), flush=True)
"""


def temps(directory):
    """Return the names of temps left in *directory*."""
    return [path.name for path in directory.iterdir() if path.name.startswith(".tmp-")]


class TestPutNew:
    """`put_new` creates a name once, complete."""

    def test_creates(self, tmp_path):
        """A new name holds the bytes, its directories are made, and no temp is left."""
        path = tmp_path / "a" / "b" / "name.json"

        created = put_new(path, b"one")

        assert created
        assert path.read_bytes() == b"one"
        assert temps(path.parent) == []

    def test_equal_bytes_succeed(self, tmp_path):
        """Writing the same bytes again succeeds and leaves the file as it is."""
        path = tmp_path / "name"
        put_new(path, b"one")
        before = path.stat()

        assert put_new(path, b"one")
        assert path.stat().st_ino == before.st_ino
        assert path.stat().st_mtime_ns == before.st_mtime_ns

    def test_other_bytes_are_never_replaced(self, tmp_path):
        """A name that holds other bytes keeps them, the caller hears False, and no temp is left."""
        path = tmp_path / "name"
        put_new(path, b"one")

        assert not put_new(path, b"two")
        assert path.read_bytes() == b"one"
        assert temps(tmp_path) == []

    def test_mode_follows_umask(self, tmp_path):
        """Files are 0666 & umask and directories 0777 & umask, so that a shared store is readable by its other users."""
        old = os.umask(0o002)
        try:
            put_new(tmp_path / "new" / "name", b"one")
        finally:
            os.umask(old)

        assert stat.S_IMODE((tmp_path / "new" / "name").stat().st_mode) == 0o664
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o775

    @pytest.mark.parametrize("lie", [FileExistsError, FileNotFoundError])
    def test_lost_reply_to_own_link(self, tmp_path, monkeypatch, lie):
        """A link that worked but is reported as EEXIST or ENOENT (a repeated request on NFS) counts as ours."""
        link = Path.hardlink_to

        def lying(path, target):
            link(path, target)
            raise lie

        monkeypatch.setattr(Path, "hardlink_to", lying)

        assert put_new(tmp_path / "name", b"one")

    def test_temp_collected_under_our_hands(self, tmp_path, monkeypatch):
        """A writer whose temp is gone before the link starts again."""
        link, removed = Path.hardlink_to, []

        def collected(path, target):
            if not removed:
                removed.append(target)
                target.unlink()
            link(path, target)

        monkeypatch.setattr(Path, "hardlink_to", collected)

        assert put_new(tmp_path / "name", b"one")
        assert (tmp_path / "name").read_bytes() == b"one"

    def test_gives_up_with_a_reason(self, tmp_path, monkeypatch):
        """If the temp vanishes every time, the error names the directory instead of trying for ever."""

        def gone(path, target):
            raise FileNotFoundError

        monkeypatch.setattr(Path, "hardlink_to", gone)

        with pytest.raises(FileNotFoundError, match="removed again and again"):
            put_new(tmp_path / "name", b"one")

    def test_one_of_four_processes_wins(self, tmp_path):
        """Of four processes that write different bytes to one name, exactly one hears True, in 50 rounds."""
        racers = [
            subprocess.Popen([sys.executable, "-c", RACER, str(i)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for i in range(4)
        ]
        for racer in racers:
            racer.stdout.readline()
        winners = []
        for number in range(50):
            for racer in racers:
                racer.stdin.write(f"{tmp_path / str(number)}\n")
                racer.stdin.flush()
            winners.append(sum(int(racer.stdout.readline()) for racer in racers))
        for racer in racers:
            racer.communicate()

        assert winners == [1] * 50
        assert temps(tmp_path) == []


class TestPutAll:
    """`put_all` does as many `put_new`, with one directory sync."""

    def test_creates_all(self, tmp_path):
        """All files hold their bytes and no temp is left."""
        files = {tmp_path / str(number % 3) / f"{number}.json": str(number).encode() for number in range(2100)}

        refused = put_all(files)

        assert refused == ()
        assert {path: path.read_bytes() for path in files} == files
        assert temps(tmp_path / "0") == []

    def test_names_what_holds_other_bytes(self, tmp_path):
        """Files with other bytes are kept and named, equal ones are kept, the rest is written."""
        (tmp_path / "equal").write_bytes(b"1")
        (tmp_path / "other").write_bytes(b"2")

        refused = put_all({tmp_path / "equal": b"1", tmp_path / "other": b"3", tmp_path / "new": b"4"})

        assert refused == (tmp_path / "other",)
        assert [(tmp_path / name).read_bytes() for name in ("equal", "other", "new")] == [b"1", b"2", b"4"]

    def test_loses_a_race_like_put_new(self, tmp_path, monkeypatch):
        """A name that another process creates between our look and our link is refused or accepted by its bytes."""
        link = Path.hardlink_to

        def overtaken(path, target):
            if not path.exists():
                path.write_bytes(b"theirs")
            link(path, target)

        monkeypatch.setattr(Path, "hardlink_to", overtaken)

        refused = put_all({tmp_path / "a": b"ours", tmp_path / "b": b"theirs"})

        assert refused == (tmp_path / "a",)
