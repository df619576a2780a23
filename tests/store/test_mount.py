"""Claims about the file system under a path."""

from pathlib import Path

import pytest

from contilab.store import clock, mount
from contilab.store.mount import file_system, is_local

TABLE = r"""21 1 0:20 / / rw - ext4 /dev/vda rw
22 21 0:21 / /s/shared rw shared:1 master:2 - nfs4 server:/x rw
23 21 0:22 / /s/with\040space rw - tmpfs tmpfs rw
24 21 0:23 / /s/twice rw - tmpfs tmpfs rw
25 21 0:24 / /s/twice rw - fuse.sshfs x rw
"""


class TestFileSystem:
    """The longest mount point above the path decides, the last of equal ones."""

    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("/s/other", "ext4"),
            ("/s/shared", "nfs4"),
            ("/s/shared/store", "nfs4"),
            ("/s/sharedness", "ext4"),
            ("/s/with space/store", "tmpfs"),
            ("/s/twice/store", "fuse.sshfs"),
        ],
    )
    def test_type(self, tmp_path, monkeypatch, path, kind):
        """Each path has the type of its mount; escaped names are read right."""
        table = tmp_path / "mountinfo"
        table.write_text(TABLE)
        monkeypatch.setattr(mount, "MOUNTS", table)

        assert file_system(Path(path)) == kind

    def test_this_machine(self, tmp_path):
        """The real table of this machine names a type."""
        assert file_system(tmp_path) != ""

    def test_unknown(self, tmp_path, monkeypatch):
        """Without a table nothing is local, so nobody takes the short way."""
        monkeypatch.setattr(mount, "MOUNTS", tmp_path / "none")

        assert file_system(tmp_path) == ""
        assert not is_local(tmp_path)


class TestBoot:
    """The boot is known or empty."""

    def test_unknown_boot(self, tmp_path, monkeypatch):
        """A system that does not tell its boot has none."""
        monkeypatch.setattr(clock, "BOOT_ID", tmp_path / "none")

        assert clock.boot_id() == ""
