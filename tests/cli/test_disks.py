"""The program on disks that fill up, turn read-only or are another user's: real mounts, real users."""

import json
import os
import subprocess
import time

import pytest

from contilab.plan.enqueue import enqueue
from contilab.store.generation import history
from contilab.store.store import open_store

MANIFEST = """
name = "one"
profile = "smoke"
[matrix]
preset = ["synthetic_class"]
method = ["naive"]
seed = [0]
[overrides]
"train.epochs" = 2
"engine.checkpoint_seconds" = 0.5
"""
READS = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")  # so the interpreter starts wherever it lies
FOREIGN = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *READS)


@pytest.fixture
def started(program):
    """A function that starts the program."""

    def start(*words, under=()):
        environ = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [*under, *program, *map(str, words)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)

    return start


@pytest.fixture
def ended(started):
    """A function that runs the program to its end: exit code and the errors that it told."""

    def run(*words, under=()):
        process = started(*words, under=under)
        _, told = process.communicate(timeout=60)
        return process.returncode, [line for line in told.splitlines() if line.startswith("error: ")]

    return run


@pytest.fixture
def disk(tmp_path):
    """A tmpfs of 4 MiB, and a way to mount it otherwise; skip where mounting is not allowed."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(options):
        done = subprocess.run(["mount", "-o", options, "-t", "tmpfs", "tmpfs", place], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("mounting a tmpfs is not permitted here")
        return place

    mount("size=4m")
    yield place, mount
    subprocess.run(["umount", "-l", place], check=True)


def fill(path):
    """Write to *path* until nothing more fits."""
    with path.open("ab", buffering=0) as file:
        for size in (65536, 4096):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue


class TestFull:
    """A disk that fills up while a group is trained."""

    @pytest.mark.slow
    def test_goes_on_from_the_last_checkpoint(self, disk, started, ended):
        """One sentence and exit code 5, nothing charged; with space again training goes on where the last checkpoint is."""
        place, _ = disk
        root = place / "store"
        enqueue(root, MANIFEST, ["train.epochs=1_000_000"], ttl_s=4)
        process = started("run", "--store", root, "--workers", 1)
        deadline = time.monotonic() + 60
        while not list(root.glob("work/*/*/ckpt-*")):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        while process.poll() is None and time.monotonic() < deadline:  # old checkpoints that are removed make space
            fill(place / "filler")
            time.sleep(0.1)
        _, told = process.communicate(timeout=60)
        store = open_store(root)
        (gid,) = store.group_ids()
        charged = [one.is_charged for one in history(store.layout, gid).attempts]
        (place / "filler").unlink()
        again = ended("run", "--store", root, "--workers", 1, "--max-seconds", 3)
        last = history(store.layout, gid).attempts[-1]

        assert process.returncode == 5
        assert [line for line in told.splitlines() if line.startswith("error: ")] != []
        assert "ENOSPC" in told or "No space left" in told
        assert not any(charged)
        assert again[0] == 6
        assert json.loads(store.layout.claim(gid, last.n).read_bytes())["start"]["step"] > 0
        assert last.end_kind == "released"


class TestRefused:
    """A disk that nothing can be written to."""

    @pytest.mark.slow
    def test_read_only(self, disk, ended):
        """A read-only store is refused in one sentence with exit code 4 by each command; writable again, the study is run."""
        place, mount = disk
        root = place / "store"
        enqueue(root, MANIFEST)
        mount("remount,ro")
        (place.parent / "m.toml").write_text(MANIFEST)
        commands = (("run",), ("plan", place.parent / "m.toml"), ("report", "one"), ("cancel", "one"))
        refused = [ended(*words, "--store", root) for words in commands]
        claims = list(root.glob("claims/*/*"))
        mount("remount,rw")

        assert [code for code, _ in refused] == [4, 4, 4, 4]
        assert [len(told) for _, told in refused] == [1, 1, 1, 1]
        assert all("EROFS" in told[0] for _, told in refused)
        assert claims == []
        assert ended("run", "--store", root) == (0, [])

    @pytest.mark.slow
    def test_another_user(self, tmp_path, ended):
        """A store of another user is refused in one sentence that names both, with exit code 4; its owner runs it."""
        if os.getuid() != 0 or subprocess.run([*FOREIGN, "true"], capture_output=True, check=False).returncode:
            pytest.skip("needs root and setpriv to become another user")
        root = tmp_path / "store"
        enqueue(root, MANIFEST)
        refused = ended("run", "--store", root, under=FOREIGN)

        assert refused[0] == 4
        assert len(refused[1]) == 1
        assert "own uid 65534, owner uid 0" in refused[1][0]
        assert list(root.glob("claims/*/*")) == []
        assert ended("run", "--store", root) == (0, [])
