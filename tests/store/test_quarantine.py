"""Claims about groups that keep failing."""

import json

import pytest

from contilab.store.claimer import Claimer, Idle
from contilab.store.generation import history, last_generation
from contilab.store.retry import retry


def die(planned, runner="one", steps=()):
    """Claim the group, write checkpoints at *steps*, and vanish without an `.end`, as after SIGKILL."""
    claim = Claimer(planned.store, runner=runner, versions={}).claim_next()
    assert not isinstance(claim, Idle), claim
    for step in steps:
        claim.save_checkpoint(step, {"state": b"1"})
    claim.close()


def die_anew(planned, steps=()):
    """Claim the group, refuse the newest checkpoint of step 100, write others at *steps*, and vanish."""
    claim = Claimer(planned.store, runner="one", versions={}).claim_next()
    assert not isinstance(claim, Idle), claim
    newest = claim.checkpoint()
    assert newest.step == 100
    claim.checkpoint_before(newest)
    for step in steps:
        claim.save_checkpoint(step, {"state": b"2"})
    claim.close()


def end(planned, kind):
    """Claim the group and end the attempt as *kind*."""
    Claimer(planned.store, runner="one", versions={}).claim_next().end(kind)


def fail(planned, text="too much"):
    """Claim the group and let training fail."""
    Claimer(planned.store, runner="one", versions={}).claim_next().fail(ValueError(text))


def found(planned):
    """Walk once, let go of what was claimed, and tell what the walk said."""
    claim = Claimer(planned.store, runner="last", versions={}).claim_next()
    if isinstance(claim, Idle):
        return claim
    claim.end("released")
    return claim.n


def record(planned, n):
    """Return the quarantine record of the first group at generation *n*."""
    return json.loads(planned.store.layout.quarantine(planned.gids[0], n).read_bytes())


class TestCharged:
    """Attempts are counted from claims, so that no process can hide one."""

    def test_killed(self, plan):
        """Three attempts that vanished without a word end in quarantine, and nobody else is let in."""
        planned = plan()
        for _ in range(3):
            die(planned)

        assert found(planned) == Idle(quarantined=planned.gids)
        assert record(planned, 3)["generations"] == [1, 2, 3]
        assert "died without a word" in record(planned, 3)["last_error"]
        assert not planned.store.layout.claim(planned.gids[0], 4).exists()

    def test_failed(self, plan):
        """Three exceptions too; the last one is named, and that one machine alone tried."""
        planned = plan()
        for text in ("a", "b", "c"):
            fail(planned, text)

        assert found(planned) == Idle(quarantined=planned.gids)
        assert record(planned, 3)["last_error"] == "ValueError: c"
        assert record(planned, 3)["reason"] == "3 attempts without progress"
        assert record(planned, 3)["is_one_machine_only"]

    def test_two_are_not_enough(self, plan):
        """A third attempt is made."""
        planned = plan()
        fail(planned)
        die(planned)

        assert found(planned) == 3

    @pytest.mark.parametrize("kind", ["released", "env", "superseded"])
    def test_not_charged(self, plan, kind):
        """Attempts that were stopped, or that the environment failed, say nothing about the group."""
        planned = plan()
        for _ in range(5):
            end(planned, kind)

        assert found(planned) == 6

    def test_claims_of_the_previous_release(self, plan):
        """Claims that say nothing of a start count from step 0 without results."""
        planned = plan()
        for n in (1, 2, 3):
            path = planned.store.layout.claim(planned.gids[0], n)
            path.parent.mkdir(exist_ok=True)
            path.write_text('{"kind": "attempt"}')
            planned.store.layout.end(planned.gids[0], n).write_text('{"kind": "failed"}')

        assert found(planned) == Idle(quarantined=planned.gids)


class TestProgress:
    """Attempts that got somewhere are forgiven."""

    def test_checkpoints(self, plan):
        """A group that gets a checkpoint further with each death is tried on."""
        planned = plan()
        for step in range(1, 6):
            die(planned, steps=[step])

        assert found(planned) == 6

    def test_stuck_later(self, plan):
        """Only attempts since the newest checkpoint count."""
        planned = plan()
        die(planned)
        die(planned, steps=[4])
        die(planned)
        die(planned)
        early = found(planned)
        die(planned)

        assert early == 5
        assert found(planned) == Idle(quarantined=planned.gids)
        assert record(planned, 6)["generations"] == [3, 4, 6]
        assert record(planned, 6)["step"] == 4

    def test_below_a_checkpoint_that_is_refused(self, plan):
        """Attempts that refuse the newest checkpoint and begin anew get on below it, and are not counted for it."""
        planned = plan()
        die(planned, steps=[100])
        for step in (10, 20, 30, 40):
            die_anew(planned, steps=[step])

        assert found(planned) == 6

    def test_stuck_below_a_checkpoint_that_is_refused(self, plan):
        """Where they get nothing done, three are too many; what they took over is no work of theirs."""
        planned = plan()
        die(planned, steps=[100])
        die_anew(planned, steps=[10])
        for _ in range(3):
            die_anew(planned)

        assert found(planned) == Idle(quarantined=planned.gids)
        assert record(planned, 5)["generations"] == [3, 4, 5]

    def test_results(self, plan):
        """A published run is progress too."""
        planned = plan(members=2)
        die(planned)
        die(planned)
        with Claimer(planned.store, runner="one", versions={}).claim_next() as claim:
            claim.put_files(claim.rids[0], {"numbers": b"1"})
            claim.publish({claim.rids[0]: "finished"}, frozenset())

        assert found(planned) == 4

    def test_claimed_by_a_peer_meanwhile(self, plan, monkeypatch):
        """An attempt that a peer began between two looks is alive and is not counted."""
        planned = plan()
        fail(planned)
        fail(planned)
        last = last_generation(planned.store.layout, planned.gids[0])
        with Claimer(planned.store, runner="peer", versions={}).claim_next():
            monkeypatch.setattr("contilab.store.claimer.last_generation", lambda *_: last)

            assert found(planned) == Idle(busy=planned.gids)
            assert not list(planned.store.layout.quarantines.iterdir())

    def test_endless_handing_on(self, plan):
        """After 50 generations a group is stopped, however they ended."""
        planned = plan()
        for _ in range(50):
            end(planned, "released")

        assert found(planned) == Idle(quarantined=planned.gids)
        assert record(planned, 50)["reason"] == "50 attempts since the last reset"


class TestHold:
    """A quarantine holds until a reset above it."""

    def test_until_a_reset(self, plan):
        """Looking again changes nothing; a reset below does not count; one above ends it and begins the count anew."""
        planned = plan()
        fail(planned)
        fail(planned)
        fail(planned)
        walks = [found(planned), found(planned)]
        retry(planned.store)
        after = [fail(planned), fail(planned), found(planned)]

        assert walks == [Idle(quarantined=planned.gids)] * 2
        assert after == [None, None, 7]
        assert history(planned.store.layout, planned.gids[0]).reset == 4
        assert planned.store.layout.quarantine(planned.gids[0], 3).exists()

    def test_again(self, plan):
        """Three more failures after a reset end in quarantine once more."""
        planned = plan()
        for _ in range(2):
            for _ in range(3):
                fail(planned)
            last = found(planned)
            retry(planned.store)

        assert last == Idle(quarantined=planned.gids)
        assert found(planned) == 9

    def test_others_go_on(self, plan, claimer):
        """A group in quarantine keeps no other from being trained."""
        planned = plan(groups=2)
        layout = planned.store.layout
        layout.quarantine(planned.gids[0], 0).write_text("{}")

        with claimer(planned).claim_next() as claim:
            assert claim.gid == planned.gids[1]

    def test_failed_final_of_an_earlier_attempt(self, plan):
        """A refused configuration blocks though a later attempt was claimed meanwhile."""
        planned = plan()
        late = Claimer(planned.store, runner="one", versions={}).claim_next()
        late.close()
        end(planned, "released")
        late.end("failed-final")
        blocked = found(planned)
        retry(planned.store)

        assert blocked == Idle(quarantined=planned.gids)
        assert found(planned) == 4
