"""Claims about runners in PID namespaces of their own, as containers have them: process numbers mean nothing there."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

PLACE = "disk"  # unless a test says otherwise

OWN = ("unshare", "-pf", "--mount-proc", "--kill-child")
LATER = (*OWN, "sh", "-c", '/bin/true; "$@"; exit', "sh")  # the runner has another number than 1, so it can stop itself

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        subprocess.run([*OWN, "true"], capture_output=True, check=False).returncode != 0,
        reason="PID namespaces are not permitted here",
    ),
]


def inner(process):
    """Return the number, out here, of the runner that *process* started in a namespace."""
    number = process.pid
    while children := Path(f"/proc/{number}/task/{number}/children").read_text().split():
        number = int(children[0])
    return number


def wait_until_stopped(number):
    """Wait until a process has stopped itself."""
    deadline = time.monotonic() + 20
    while Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def stopped(start_worker):
    """Return a runner in a namespace that has stopped itself at a place, and its number out here."""

    def stop(planned, place):
        worker = start_worker(failpoint=f"{place}:STOP", under=LATER)
        worker.wait_until_ready()
        number = inner(worker.process)
        worker.send(planned.root)
        wait_until_stopped(number)
        return worker, number

    return stop


@pytest.fixture
def peer(start_worker):
    """Return a runner that is number 1 in its namespace and works on a store after another one."""
    worker = start_worker("--pause", "0.05", under=OWN)
    worker.wait_until_ready()

    def work(planned):
        worker.send(planned.root)
        return worker.answer()

    return work


class TestNamespaces:
    """Neither a process number nor a host name says whether an owner lives."""

    def test_killed(self, plan, stopped, peer, check):
        """SIGKILL in one namespace: a runner in another goes on well within the TTL, since the lock is free."""
        planned = plan(members=2, ttl_s=30.0)
        _, number = stopped(planned, "output.half")
        os.kill(number, signal.SIGKILL)
        started = time.monotonic()
        answer = peer(planned)

        assert time.monotonic() - started < 15
        assert [claim["n"] for claim in answer["claims"]] == [2]
        assert check(planned, [answer], all_told=False) == []

    @pytest.mark.parametrize("point", ["output.half", "publish.fenced", "publish.first_renamed"])
    def test_stopped(self, plan, stopped, peer, check, point):
        """SIGSTOP in one namespace: followed after one TTL; when it goes on, there is one result and no byte changed."""
        planned = plan(members=2, ttl_s=1.0)
        paused, number = stopped(planned, point)
        answers = [peer(planned)]
        published = planned.published()
        os.kill(number, signal.SIGCONT)
        answers.append(paused.answer())

        assert planned.published() == published
        assert check(planned, answers) == []

    def test_living(self, plan, claimer, start_worker):
        """An owner whose number does not exist in the namespace of its peer keeps its group as long as it beats."""
        planned = plan(ttl_s=1.5)
        owner = claimer(planned).claim_next()
        worker = start_worker("--pause", "0.05", under=OWN)
        worker.wait_until_ready()
        worker.send(planned.root)
        time.sleep(4)
        followed = planned.store.layout.claim(planned.gids[0], 2).exists()
        owner.end("released")
        answer = worker.answer()

        assert not followed
        assert [claim["n"] for claim in answer["claims"]] == [2]
