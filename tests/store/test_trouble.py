"""Claims about machines with wrong clocks and file systems that lie, as real processes."""

import os
import signal
import time

import pytest

PLACE = "disk"  # unless a test says otherwise

DAY = 86400


@pytest.fixture
def together(start_worker):
    """Let several troubled processes work on one store at once and return what they did."""

    def work(planned, *kinds):
        workers = [start_worker("--pause", "0.05", *(f"--trouble={one}" for one in kind.split())) for kind in kinds]
        for worker in workers:
            worker.wait_until_ready()
        for worker in workers:
            worker.send(planned.root)
        return [worker.answer() for worker in workers]

    return work


class TestClock:
    """No wall clock decides anything."""

    def test_skew(self, plan, together, check):
        """Three machines whose clocks are a day apart share the work: each group is claimed once and nothing is stuck."""
        planned = plan(groups=20, ttl_s=20.0)

        answers = together(planned, f"skew:{DAY}", f"skew:-{DAY}", "skew:0")

        assert check(planned, answers) == []
        assert sum(len(answer["claims"]) for answer in answers) == 20

    @pytest.mark.slow
    @pytest.mark.parametrize("skew", [DAY, -DAY])
    def test_nothing_is_stolen_early(self, plan, start_worker, claimer, skew):
        """A machine whose clock is a day ahead or behind leaves an owner alone that beats, whatever times its files carry."""
        planned = plan(ttl_s=2.0)
        owner = claimer(planned).claim_next()
        peer = start_worker("--pause", "0.05", f"--trouble=skew:{skew}")
        peer.wait_until_ready()
        peer.send(planned.root)
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            for moment in (0, time.time() + 10 * DAY):
                os.utime(owner.work_dir / "beat", (moment, moment))
            time.sleep(0.05)
        followed = planned.store.layout.claim(planned.gids[0], 2).exists()
        owner.end("released")
        answer = peer.answer()

        assert not followed
        assert [claim["n"] for claim in answer["claims"]] == [2]

    @pytest.mark.parametrize("skew", [DAY, -DAY])
    def test_nothing_is_stuck(self, plan, start_worker, check, skew):
        """An owner that was stopped for longer than the TTL is followed after one TTL, with its files dated in the future."""
        planned = plan(ttl_s=1.0)
        paused = start_worker(failpoint="publish.fenced:STOP")
        paused.wait_until_ready()
        paused.send(planned.root)
        os.waitpid(paused.process.pid, os.WUNTRACED)
        for path in planned.root.rglob("*"):
            os.utime(path, (time.time() + 10 * DAY,) * 2)
        peer = start_worker("--pause", "0.05", "--no-flock", f"--trouble=skew:{skew}")
        peer.wait_until_ready()
        peer.send(planned.root)
        answers = [peer.answer()]
        paused.process.send_signal(signal.SIGCONT)
        answers.append(paused.answer())

        assert [claim["n"] for claim in answers[0]["claims"]] == [2]
        assert check(planned, answers) == []


class TestLiar:
    """What a network file system says is not always so."""

    @pytest.mark.parametrize("kind", ["eexist", "enoent", "estale", "listing", "estale listing eexist"])
    def test_lies(self, plan, together, check, kind):
        """Lost replies, stale handles and old listings: all results, none twice, none torn; nobody takes it for a fault."""
        planned = plan(groups=8, members=2, ttl_s=20.0)

        answers = together(planned, kind, kind, "skew:0")

        assert check(planned, answers) == []
        assert [answer["faults"] for answer in answers] == [0, 0, 0]

    @pytest.mark.parametrize("kind", ["eio", "enospc"])
    def test_faults(self, plan, together, check, kind):
        """A disk that fails at fsync or close now and then: attempts end uncharged or go on, and in the end all is there."""
        planned = plan(groups=8, members=2, ttl_s=1.0)

        answers = together(planned, kind, kind, "skew:0")

        assert sum(answer["faults"] for answer in answers) > 0
        assert [answer["quarantined"] for answer in answers] == [[], [], []]
        assert check(planned, answers, all_told=False) == []
