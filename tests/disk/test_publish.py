"""Claims about directories that arrive by one rename."""

import errno
import hashlib
import json
from pathlib import Path

import pytest

from contilab.disk.publish import MANIFEST, publish_dir


@pytest.fixture
def build(tmp_path):
    """Make a directory with one file of the given content, below its own parent."""

    def make(name, content=b"content"):
        directory = tmp_path / "work" / name
        directory.mkdir(parents=True)
        (directory / "data").write_bytes(content)
        return directory

    (tmp_path / "results").mkdir()
    return make


@pytest.fixture
def final(tmp_path):
    """Where results arrive."""
    return tmp_path / "results" / "final"


class TestPublishDir:
    """`publish_dir` moves a sealed directory onto a name that is not there."""

    def test_arrives_complete(self, build, final):
        """The result holds its files and a manifest with size, SHA-256 and whether attempts are compared on each."""
        temp = build("one")
        (temp / "log").write_bytes(b"")

        landed = publish_dir(temp, final, {"rid": "r"}, compared=frozenset({"data"}))

        assert landed
        assert not temp.exists()
        assert json.loads((final / MANIFEST).read_bytes()) == {
            "rid": "r",
            "files": {
                "data": {"compared": True, "sha256": hashlib.sha256(b"content").hexdigest(), "size": 7},
                "log": {"compared": False, "sha256": hashlib.sha256(b"").hexdigest(), "size": 0},
            },
        }

    def test_never_replaces(self, build, final):
        """A second result stays where it was built and the first keeps every byte."""
        publish_dir(build("one", b"first"), final, {"n": 1})
        second = build("two", b"second")

        assert not publish_dir(second, final, {"n": 2})
        assert (final / "data").read_bytes() == b"first"
        assert (second / "data").read_bytes() == b"second"

    def test_file_in_the_way(self, build, final):
        """A file under the final name is not replaced either."""
        final.write_bytes(b"a file")

        assert not publish_dir(build("one"), final, {"n": 1})
        assert final.read_bytes() == b"a file"

    @pytest.mark.parametrize("code", [errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY])
    def test_lost_reply_to_own_rename(self, build, final, monkeypatch, code):
        """A rename that worked but is reported as failed (a repeated request on NFS) counts as ours."""
        rename = Path.rename

        def lying(path, target):
            rename(path, target)
            raise OSError(code, "told twice")

        monkeypatch.setattr(Path, "rename", lying)

        assert publish_dir(build("one"), final, {"n": 1})

    def test_collected_directory(self, build, final, tmp_path, monkeypatch):
        """A directory that was removed before the rename is an error, not a result."""
        temp = build("one")
        rename = Path.rename

        def removed(path, target):
            rename(path, tmp_path / "elsewhere")
            rename(path, target)

        monkeypatch.setattr(Path, "rename", removed)

        with pytest.raises(FileNotFoundError):
            publish_dir(temp, final, {"n": 1})
        assert not final.exists()

    def test_other_faults_are_raised(self, build, final, monkeypatch):
        """A fault of the disk is raised, and the directory stays for the next try, which seals it anew."""
        rename, temp = Path.rename, build("one")

        def full(path, target):
            raise OSError(errno.ENOSPC, "no space left")

        monkeypatch.setattr(Path, "rename", full)
        with pytest.raises(OSError, match="no space left"):
            publish_dir(temp, final, {"n": 1})
        monkeypatch.setattr(Path, "rename", rename)

        assert publish_dir(temp, final, {"n": 1})
        assert list(json.loads((final / MANIFEST).read_bytes())["files"]) == ["data"]
