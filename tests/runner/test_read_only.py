"""A store that turns read-only under a runner at work, as a real mount.

The kernel refuses to remount what has files open for writing, such as the locks of the runner. So a read-only view of the same
directory is mounted over it: each name that the runner looks up from then on is on a read-only file system.
"""

import json
import os
import subprocess
import time

import pytest

from contilab.plan.enqueue import enqueue
from contilab.store.checkpoint import newest
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
"train.epochs" = 1_000_000
"engine.checkpoint_seconds" = 0.3
"""


@pytest.fixture
def disk(tmp_path):
    """A directory, and a way to cover it by a read-only view of itself; skip where mounting is not allowed."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(*options):
        return subprocess.run(["mount", *options, place], capture_output=True, check=False).returncode == 0

    def cover():
        assert mount("--bind", place)
        assert mount("-o", "remount,bind,ro")

    if os.getuid() != 0 or not mount("--bind", place):
        pytest.skip("mounting is not permitted here")
    yield place, cover
    while subprocess.run(["umount", "-l", place], capture_output=True, check=False).returncode == 0:
        pass


@pytest.fixture
def started(program):
    """A function that starts a runner."""

    def start(root, *words):
        environ = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [*program, "run", "--workers", "1", "--store", str(root), *words]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environ)

    return start


@pytest.mark.slow
class TestReadOnly:
    """A store that nothing can be written to any more."""

    def test_under_a_runner(self, disk, started):
        """One sentence and exit code 5, at once; the last checkpoint is whole; writable again, training goes on from there."""
        place, cover = disk
        root = place / "store"
        enqueue(root, MANIFEST, ttl_s=4)
        process, deadline = started(root), time.monotonic() + 60
        while not list(root.glob("work/*/*/ckpt-*")):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        cover()
        _, told = process.communicate(timeout=60)
        store = open_store(root)
        (gid,) = store.group_ids()
        left = newest(store.layout, gid, 9)
        subprocess.run(["umount", place], check=True)
        again = started(root, "--max-seconds", "3")
        again.communicate(timeout=60)
        first, last = history(store.layout, gid).attempts

        assert process.returncode == 5
        assert [line for line in told.splitlines() if line.startswith("error: ")] != []
        assert "Traceback" not in told
        assert "read-only" in told.lower()
        assert left.found is not None
        assert first.end is None  # nothing can be written: it looks like a crash, one of three
        assert again.returncode == 6
        assert json.loads(store.layout.claim(gid, last.n).read_bytes())["start"]["step"] >= left.found.step > 0
        assert last.end_kind == "released"
