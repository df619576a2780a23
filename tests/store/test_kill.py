"""Claims about runners that die or pause at the worst moments, as real processes and real signals."""

import os
import random
import re
import signal
import time

import pytest

from contilab.disk import failpoint
from contilab.store.retry import retry
from contilab.store.status import counts, study_status

PLACE = "disk"  # unless a test says otherwise

PLACES = re.findall(r"^([a-z_]+\.[a-z_]+) ", failpoint.__doc__, flags=re.MULTILINE)


@pytest.fixture
def successor(start_worker):
    """Return a runner that works on a store after another one and tells what it did."""
    worker = start_worker("--pause", "0.05")
    worker.wait_until_ready()

    def work(planned):
        worker.send(planned.root)
        return worker.answer()

    return work


def stopped_at(worker, planned):
    """Send *worker* to the store and wait until it has stopped itself."""
    worker.wait_until_ready()
    worker.send(planned.root)
    _, state = os.waitpid(worker.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(state)


def overtaken(paused, other, planned):
    """Let *other* work while *paused* is stopped, then *paused* go on: their answers, and whether what was published stayed."""
    stopped_at(paused, planned)
    other.wait_until_ready()
    other.send(planned.root)
    answers = [other.answer()]
    published = planned.published()
    paused.process.send_signal(signal.SIGCONT)
    answers.append(paused.answer())
    return answers, planned.published() == published


class TestKill:
    """A runner that is killed leaves nothing that another could not take over."""

    @pytest.mark.parametrize("place", ["disk", "memory"], indirect=True)
    @pytest.mark.parametrize(
        "arguments", [(), pytest.param(("--no-flock",), marks=pytest.mark.slow)], ids=["flock", "no flock"]
    )
    def test_at_each_place(self, handed_on, start_worker, successor, check, arguments):
        """SIGKILL at each failpoint: another runner finishes well within one TTL, and nothing is torn or published twice."""
        victims = {place: start_worker(*arguments, failpoint=f"{place}:KILL") for place in PLACES}
        wrongs, seconds = [], []
        for place, victim in victims.items():
            planned = handed_on(members=2, ttl_s=20.0)
            victim.wait_until_ready()
            victim.send(planned.root)
            assert victim.process.wait() == -signal.SIGKILL
            started = time.monotonic()
            answer = successor(planned)
            seconds.append(time.monotonic() - started)
            wrongs += [f"{place}: {wrong}" for wrong in check(planned, [answer], all_told=False)]

        assert wrongs == []
        assert max(seconds) < 10.0  # the machine is the same, so nobody waits for the TTL

    @pytest.mark.parametrize("place", ["disk", "memory"], indirect=True)
    @pytest.mark.slow
    def test_at_random(self, plan, start_worker, successor, check):
        """Random SIGKILLs for 20 seconds with restarts, then a clean run: all results, none torn, none published twice."""
        planned, chance = plan(groups=250, members=2), random.Random(1)
        answers, stop = [], time.monotonic() + 20
        while time.monotonic() < stop:
            victims = [start_worker("--pause", "0.05") for _ in range(3)]
            for victim in victims:
                victim.wait_until_ready()
                victim.send(planned.root)
            time.sleep(chance.uniform(0.01, 0.5))
            states = counts(study_status(planned.store, planned.study))  # whatever was written half way, `status` answers
            for victim in victims:
                victim.kill()
        retry(planned.store)  # groups that were hit three times
        answers.append(successor(planned))

        assert check(planned, answers, all_told=False) == []
        assert sum(states.values()) == len(planned.rids)
        assert "damaged" not in states


class TestPause:
    """A runner that was stopped and goes on later changes no published byte."""

    @pytest.mark.parametrize("place", ["disk", "memory"], indirect=True)
    def test_past_its_fence_without_locks(self, plan, start_worker, check):
        """Stopped between fence and rename, with locks that always say yes: the successor's result stays, byte for byte."""
        planned = plan(members=2)
        paused, other = start_worker("--no-flock", failpoint="publish.fenced:STOP"), start_worker("--no-flock")
        answers, is_unchanged = overtaken(paused, other, planned)

        assert is_unchanged
        assert answers[0]["claims"][0]["landed"] == sorted(planned.rids)
        assert answers[1]["claims"][0]["late"] == sorted(planned.rids)
        assert check(planned, answers) == []

    def test_inside_the_locked_section(self, plan, start_worker, successor, check):
        """Stopped while it holds the group lock: a peer goes on after 2 TTL without the lock."""
        planned = plan()
        paused = start_worker(failpoint="claim.beating:STOP")
        stopped_at(paused, planned)
        started = time.monotonic()
        answers = [successor(planned)]
        waited = time.monotonic() - started
        published = planned.published()
        paused.process.send_signal(signal.SIGCONT)
        answers.append(paused.answer())

        assert 2.0 < waited < 20.0
        assert planned.published() == published
        assert answers[1]["claims"][0]["is_superseded"]
        assert check(planned, answers) == []

    @pytest.mark.parametrize("place", ["disk", "memory"], indirect=True)
    @pytest.mark.slow
    @pytest.mark.parametrize("arguments", [(), ("--no-flock",)], ids=["flock", "no flock"])
    @pytest.mark.parametrize("at", PLACES)
    def test_at_each_place(self, handed_on, start_worker, check, at, arguments):
        """SIGSTOP at each failpoint while a successor runs: no published byte changes, whether locks work or not."""
        planned = handed_on(members=2)
        paused, other = start_worker(*arguments, failpoint=f"{at}:STOP"), start_worker("--pause", "0.05", *arguments)
        answers, is_unchanged = overtaken(paused, other, planned)

        assert is_unchanged
        assert check(planned, answers, all_told=False) == []
