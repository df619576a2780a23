"""SIGTERM in the moments that hurt most: the program has stopped itself at a failpoint, is told to end, and goes on."""

import os
import signal
import subprocess

import pytest

from contilab.disk.failpoint import VARIABLE
from contilab.plan.enqueue import enqueue
from contilab.store.generation import history
from contilab.store.store import open_store

MANIFEST = """
name = "one"
profile = "smoke"
[matrix]
preset = ["synthetic_class"]
method = ["naive"]
seed = [0, 1]
[overrides]
"engine.checkpoint_seconds" = 0.2
"""
IN_TRAINING = ("claim.before", "claim.beating", "checkpoint.half")
IN_PUBLISHING = ("output.half", "publish.fenced", "publish.first_renamed", "publish.renamed")

pytestmark = pytest.mark.slow


@pytest.fixture
def told(tmp_path, program):
    """Let a runner stop itself at a place, tell it to end, let it go on: exit code, how its attempts ended, and store."""

    def run(place):
        enqueue(tmp_path / "store", MANIFEST, ["train.epochs=1_000_000"] if place in IN_TRAINING else [], ttl_s=20)
        environ = {**os.environ, "OMP_NUM_THREADS": "1", VARIABLE: f"{place}:STOP"}
        command = [*program, "run", "--store", str(tmp_path / "store"), "--workers", "1"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)
        os.waitpid(process.pid, os.WUNTRACED)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=60)
        store = open_store(tmp_path / "store")
        (gid,) = store.group_ids()
        return process.returncode, [one.end_kind for one in history(store.layout, gid).attempts], store

    return run


class TestSigterm:
    """Whatever a runner is doing, it ends by itself, with exit code 143, and nothing is held against the group."""

    @pytest.mark.parametrize("place", IN_TRAINING)
    def test_before_the_end(self, told, place):
        """While it claims, trains or writes a checkpoint: the group is given back with all its runs open."""
        code, ends, store = told(place)

        assert code == 143
        assert ends in ([], ["released"])
        assert store.results() == set()

    @pytest.mark.parametrize("place", IN_PUBLISHING)
    def test_while_publishing(self, told, place):
        """While it writes or publishes results: what is under way is finished, and the group is done."""
        code, ends, store = told(place)

        assert code == 143
        assert ends == ["done"]
        assert len(store.results()) == 2
