"""Claims about the state of runs."""

import os
import subprocess
import sys
import time

import pytest

from contilab.disk.publish import MANIFEST
from contilab.errors import UsageError
from contilab.store.cancel import cancel
from contilab.store.claimer import Claimer
from contilab.store.status import counts, study_status

SCRIPT = """
import sys
from pathlib import Path
from contilab.store.status import counts, study_status
from contilab.store.store import open_store
store = open_store(Path(sys.argv[1]))
print(counts(study_status(store, store.study("study"))))
heavy = {"torch", "numpy", "pydantic", "filelock"} & set(sys.modules)
assert not heavy, heavy
"""


def states(planned):
    """Return the state of each run in the order of the study."""
    return [status.state for status in study_status(planned.store, planned.study).values()]


def claim(planned, runner="one"):
    """Claim any open group."""
    return Claimer(planned.store, runner=runner, versions={}).claim_next()


class TestStudyStatus:
    """The state of a run follows from names alone."""

    def test_waiting(self, plan):
        """A run that nobody claimed waits."""
        assert states(plan(members=2)) == ["waiting", "waiting"]

    def test_without_a_group(self, plan):
        """A run whose group is not written yet (plan was killed) waits."""
        planned = plan()
        planned.store.layout.group(planned.gids[0]).unlink()

        assert states(planned) == ["waiting"]

    def test_running(self, plan):
        """A claimed run is running, with step, rate, who and how long ago the last beat was."""
        planned = plan()
        planned.store.add_runner("one", {"host": "laptop"})
        with claim(planned) as attempt:
            attempt.tell(step=5, steps=9, samples_per_second=120.04)
            attempt._heartbeat._beat()
            (status,) = study_status(planned.store, planned.study).values()

        assert status.state == "running"
        assert (status.who, status.step, status.steps, status.samples_per_second) == ("laptop", 5, 9, 120.0)
        assert 0 <= status.beat_age_s < 5
        assert not status.is_silent

    def test_silent(self, plan):
        """A beat older than one TTL is called silent; the state stays, since only an observer may give it up."""
        planned = plan()
        with claim(planned, "0123456789abcdef") as attempt:
            attempt._heartbeat.stop()
            os.utime(attempt.work_dir / "beat", (time.time() - 60, time.time() - 60))
            (status,) = study_status(planned.store, planned.study).values()

        assert (status.state, status.is_silent, status.who) == ("running", True, "0123456789ab")

    def test_before_the_first_beat(self, plan):
        """A claim without a beat is running at step 0."""
        planned = plan()
        path = planned.store.layout.claim(planned.gids[0], 1)
        path.parent.mkdir()
        path.write_text('{"kind": "attempt"}')

        (status,) = study_status(planned.store, planned.study).values()

        assert (status.state, status.step, status.beat_age_s) == ("running", 0, None)

    def test_done_and_diverged(self, plan):
        """Published runs are done, or diverged."""
        planned = plan(members=2)
        attempt = claim(planned)
        for rid in attempt.rids:
            attempt.put_files(rid, {"numbers": b"1"})
        attempt.publish({planned.rids[0]: "finished", planned.rids[1]: "diverged"}, frozenset())

        assert states(planned) == ["done", "diverged"]

    def test_damaged(self, drained):
        """A result that is not complete is damaged, and its path is named."""
        (drained.store.result_dir(drained.rids[0]) / MANIFEST).unlink()

        status = study_status(drained.store, drained.study)[drained.rids[0]]

        assert status.state == "damaged"
        assert str(drained.store.result_dir(drained.rids[0])) in status.reason

    def test_after_a_failure(self, plan):
        """A run whose training failed waits for the next attempt and says what happened."""
        planned = plan()
        claim(planned).fail(ValueError("too much"))

        (status,) = study_status(planned.store, planned.study).values()

        assert (status.state, status.reason) == ("waiting", "ValueError: too much")

    def test_quarantined(self, plan):
        """A run in quarantine says why, and with which error the last attempt ended."""
        planned = plan()
        for _ in range(3):
            claim(planned).fail(ValueError("too much"))
        claim(planned)

        (status,) = study_status(planned.store, planned.study).values()

        assert status.state == "quarantined"
        assert "3 attempts without progress; last error: ValueError: too much" in status.reason

    def test_failed_final(self, plan):
        """A run whose configuration was refused is in quarantine before anybody writes a record of it."""
        planned = plan()
        claim(planned).fail(UsageError("memory", "too small"))

        (status,) = study_status(planned.store, planned.study).values()

        assert (status.state, status.reason) == ("quarantined", "UsageError: memory: too small")

    def test_cancelled(self, plan):
        """A cancelled run is cancelled from the first moment, though its owner has not looked yet."""
        planned = plan(groups=2)
        with claim(planned) as attempt:
            cancel(planned.store, attempt.gid)

            assert sorted(states(planned)) == ["cancelled", "waiting"]

    def test_running_in_one_group_of_two(self, plan):
        """A run whose one group is cancelled is where its other group is."""
        planned = plan()
        planned.store.add_groups([[planned.rids[0], "0" * 64]])
        cancel(planned.store, planned.gids[0])

        assert states(planned) == ["waiting"]

    def test_after_a_fault_of_the_machine(self, plan):
        """A run whose attempt met a fault of the machine waits, and says what happened."""
        planned = plan()
        claim(planned).fail(OSError(28, "No space left on device"))

        (status,) = study_status(planned.store, planned.study).values()

        assert (status.state, status.reason) == ("waiting", "OSError: [Errno 28] No space left on device")

    def test_two_groups(self, plan):
        """A run in two groups is running if one of them is, though the other failed."""
        planned = plan()
        claim(planned).fail(ValueError("too much"))
        planned.store.add_groups([[planned.rids[0], "0" * 64]])
        with claim(planned, "two"):
            assert states(planned) == ["running"]

    def test_writes_nothing(self, drained):
        """Asking changes no name, no file and no time."""
        before = {str(path): path.stat().st_mtime_ns for path in drained.root.rglob("*")}

        study_status(drained.store, drained.study)

        assert {str(path): path.stat().st_mtime_ns for path in drained.root.rglob("*")} == before

    def test_counts(self, plan):
        """Runs are counted by state."""
        planned = plan(groups=2, members=2)
        with claim(planned):
            assert counts(study_status(planned.store, planned.study)) == {"running": 2, "waiting": 2}

    def test_imports_nothing_heavy(self, drained):
        """A process that asks for the states loads neither torch nor numpy, nor what validates, nor locks."""
        done = subprocess.run([sys.executable, "-c", SCRIPT, drained.root], capture_output=True, text=True, check=False)

        assert (done.stdout, done.stderr) == ("{'done': 2}\n", "")


class TestScale:
    """The store of a large study."""

    @pytest.mark.slow
    def test_ten_thousand_runs(self, plan):
        """The states of 10,000 runs in 1,250 groups are told; `tests/bench/store.py` tells how long that takes."""
        planned = plan(groups=1250, members=8)

        assert counts(study_status(planned.store, planned.study)) == {"waiting": 10_000}
