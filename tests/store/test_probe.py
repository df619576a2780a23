"""Claims about places that cannot hold a store."""

import errno
import os
import shutil
import subprocess
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest

from contilab.errors import StoreError
from contilab.store.probe import check_writable, probe


@pytest.fixture
def mounted(tmp_path):
    """Mount a tmpfs with options on a directory; skip where mounting is not allowed."""
    places = []

    def mount(options):
        place = tmp_path / f"mount{len(places)}"
        place.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("mounting a tmpfs is not permitted here")
        places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", "-l", place], check=True)


class TestProbe:
    """The probe does what the protocol does, before anything is claimed."""

    def test_leaves_nothing(self, tmp_path):
        """A good place, made if missing, is left empty."""
        probe(tmp_path / "new" / "store")

        assert list((tmp_path / "new" / "store").iterdir()) == []

    def test_file_in_the_way(self, tmp_path):
        """A file where a directory should be is refused, with reason, uids and free space in one sentence."""
        (tmp_path / "file").touch()

        with pytest.raises(StoreError, match=r"Not a directory \(ENOTDIR\).*own uid \d+, owner uid \d+, \d+ MiB free"):
            probe(tmp_path / "file" / "store")

    def test_no_hard_links(self, tmp_path, monkeypatch):
        """A file system without hard links (SMB) is refused."""

        def refused(path, target):
            raise PermissionError(errno.EPERM, "operation not permitted", str(path))

        monkeypatch.setattr(Path, "hardlink_to", refused)

        with pytest.raises(StoreError, match="use a file system with hard links"):
            probe(tmp_path)

    @pytest.mark.parametrize("name", ["hardlink_to", "rename"])
    def test_replaces_silently(self, tmp_path, monkeypatch, name):
        """A file system on which link or rename replaces what is there is refused."""
        monkeypatch.setattr(Path, name, lambda *_: None)

        with pytest.raises(StoreError, match="replaced"):
            probe(tmp_path)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EACCES, errno.EIO])
    def test_every_refusal_has_a_way_out(self, tmp_path, monkeypatch, number):
        """Whatever the disk says, the error names it and a way out."""

        def failing(path, mode):
            raise OSError(number, os.strerror(number), str(path))

        monkeypatch.setattr(Path, "open", failing)

        with pytest.raises(StoreError, match=rf"\({errno.errorcode[number]}\)(.|\n)*hint: "):
            probe(tmp_path)

    def test_read_only(self, mounted):
        """A read-only file system is refused."""
        with pytest.raises(StoreError, match=r"EROFS(.|\n)*mount the volume writable"):
            probe(mounted("ro"))

    def test_full(self, mounted):
        """A full disk is refused."""
        place = mounted("size=64k")
        (place / "filler").write_bytes(bytes(60 * 1024))

        with pytest.raises(StoreError, match=r"ENOSPC(.|\n)*free some space"):
            probe(place)

    def test_directory_of_another_user(self):
        """A directory of another uid is refused, and the error names both uids."""
        if os.getuid() != 0:
            pytest.skip("needs root to become another uid")
        place = Path(tempfile.mkdtemp(prefix="contilab-probe-"))
        place.chmod(0o755)
        os.seteuid(65534)
        try:
            with pytest.raises(StoreError, match=r"EACCES.*own uid 65534, owner uid 0") as refusal:
                probe(place / "store")
        finally:
            os.seteuid(0)
            shutil.rmtree(place)

        assert "docker run --user" in refusal.value.faults[0].hint


class TestCheckWritable:
    """Less than a store needs, for what is smaller than one."""

    def test_passes(self, tmp_path, monkeypatch):
        """A folder that need not be there passes, without hard links too, and nothing is made."""
        monkeypatch.delattr(Path, "hardlink_to")
        check_writable(tmp_path / "new" / "report", "report")

        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(("number", "is_refused"), [(errno.EROFS, True), (errno.EACCES, True), (errno.ENOSPC, False)])
    def test_refusal(self, tmp_path, monkeypatch, number, is_refused):
        """What cannot be written to is refused by what it is, with the way out that is given; a full disk is not."""

        def failing(path, data):
            raise OSError(number, os.strerror(number), str(path))

        monkeypatch.setattr("contilab.store.probe.write_synced", failing)
        told = rf"cannot hold a report: .*\({errno.errorcode[number]}\)(.|\n)*hint: elsewhere"

        with pytest.raises(StoreError, match=told) if is_refused else nullcontext():
            check_writable(tmp_path, "report", hint="elsewhere")
