"""The log of an attempt that is under way or was killed, as `contilab status` shows it."""

import os
import signal
import subprocess

import pytest

from contilab.cli.attempt_page import group_page, group_table, run_page, run_table
from contilab.plan.enqueue import enqueue
from contilab.runner.logging import GroupLog
from contilab.store.claimer import Claimer
from contilab.store.retry import retry
from contilab.store.store import open_store

MANIFEST = """
name = "one"
profile = "smoke"
[matrix]
preset = ["synthetic_class"]
method = ["naive"]
seed = [0, 1]
[overrides]
"train.epochs" = 1_000_000
"engine.checkpoint_seconds" = 0.5
"""


@pytest.fixture
def root(tmp_path):
    """A store with one group of two runs that are never done."""
    enqueue(tmp_path / "store", MANIFEST, ttl_s=4)
    return tmp_path / "store"


@pytest.fixture
def begun(root):
    """The same, with an attempt under way that has logged something; it looks as if it had been killed when it is let go of."""
    store = open_store(root)
    with Claimer(store, runner="r", versions={}).claim_next() as claim:
        log = GroupLog(claim.keep_line, group=claim.gid[:12], attempt=claim.n)
        log.log("group_started", runs=2)
        log.log("diverged", rid=claim.rids[0])
        yield store, claim


def told(store, rid):
    """Return what `status` says of a run."""
    return "\n".join(run_page(run_table(store, rid)))


class TestAttemptLog:
    """What an attempt logged is there before it ends."""

    def test_under_way(self, begun):
        """While an attempt runs its log is shown, with the place where it is; of another run of its group nothing."""
        store, claim = begun
        first, second = (told(store, rid) for rid in claim.rids)

        assert "group_started" in first
        assert "diverged" in first
        assert f"log of attempt 1 in {store.layout.log(claim.gid, 1).absolute()}" in first
        assert "group_started" in second
        assert "diverged" not in second

    def test_killed(self, begun):
        """So it is when the attempt has died without a word, and after a retry, which is no attempt."""
        store, claim = begun
        claim.close()
        for n in (2, 3):
            with Claimer(store, runner=str(n), versions={}).claim_next():
                pass
        Claimer(store, runner="4", versions={}).claim_next()
        retry(store, claim.gid)
        page = "\n".join(group_page(group_table(store, claim.gid)))

        assert page.count("open, or died without a word") == 3
        assert "reset" in page
        assert "group_started" in page

    @pytest.mark.slow
    def test_sigkill(self, root, program):
        """A real runner that is killed while it trains leaves what it logged until then."""
        environ = {**os.environ, "OMP_NUM_THREADS": "1", "CONTILAB_DEBUG": "1"}
        command = [*program, "run", "--workers", "1", "--store", str(root)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environ)
        for line in process.stderr:
            if '"checkpoint"' in line:
                break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        store = open_store(root)
        events = [event["event"] for event in run_table(store, store.study("one").rids[0])["log"]]

        assert {"group_started", "checkpoint"} <= set(events)
