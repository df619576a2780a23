"""The folder that --store names, as every command takes it."""

import errno
import os

import pytest


def refuse(path, data):
    """Write nothing, as on a read-only file system."""
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))


class TestStore:
    """The folder that --store names."""

    @pytest.mark.parametrize("words", [("plan", "m.toml"), ("report", "small"), ("run",), ("status",), ("demo",)])
    @pytest.mark.parametrize("path", ["file", "file/store"])
    def test_a_file(self, cli, manifest, monkeypatch, words, path):
        """A store that is a file, or would lie in one, is the user's mistake, told alike by every command."""
        monkeypatch.chdir(manifest.parent)
        (manifest.parent / "file").write_text("")
        code, out, err = cli(*words, "--store", path)

        assert (code, out) == (2, "")
        assert err.endswith("is no folder\n\nhint: a store is a folder: name another one with --store DIR or CONTILAB_STORE\n")
        assert (manifest.parent / "file").read_text() == ""

    @pytest.mark.parametrize(
        "words",
        [
            ("plan", "m.toml"),
            ("run",),
            ("report", "small"),
            ("cancel", "small"),
            ("retry", "small"),
            ("prune", "small"),
            ("metrics", "small", "--add", "acc"),
        ],
        ids=lambda words: words[0],
    )
    def test_read_only(self, cli, manifest, tmp_path, monkeypatch, words):
        """Where nothing can be written that is told before anything is done, alike by every command that writes: code 4."""
        monkeypatch.chdir(tmp_path)
        cli("plan", manifest, "--store", "store")
        monkeypatch.setattr("contilab.store.probe.write_synced", refuse)
        code, out, err = cli(*words, "--store", "store")
        what = words[0] if words[0] == "report" else "store"

        assert (code, "removed" in out) == (4, False)
        assert err.startswith("error: store")
        assert f": the directory cannot hold a {what}: Read-only file system (EROFS) at " in err
        assert ("--out DIR" in err) == (what == "report")
