"""Claims about following another attempt."""

import json
import os
import time

import pytest

from contilab.store.claimer import Idle


def claimed_after_stale(claimer, seconds=5.0):
    """Walk until something can be claimed."""
    deadline = time.monotonic() + seconds
    while isinstance(found := claimer.claim_next(), Idle) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def without_alive(claim):
    """Stop the beat of *claim* but keep its locks, as a paused process does."""
    claim._heartbeat.stop()
    return claim


class TestFollow:
    """An attempt is followed when it ended, when it is stale, or when its process is known to be gone."""

    @pytest.mark.parametrize("kind", ["released", "env", "superseded"])
    def test_after_its_end(self, plan, claimer, kind):
        """An ended attempt is followed at once, by its own runner too; the generations have no gap."""
        planned = plan()
        runner = claimer(planned)
        runner.claim_next().end(kind)

        with runner.claim_next() as claim:
            assert claim.n == 2

    def test_dead_process_on_this_machine(self, plan, claimer):
        """An attempt whose lock is free on the same boot is followed at once, without waiting for one TTL."""
        planned = plan(ttl_s=60.0)
        claimer(planned).claim_next().close()

        with claimer(planned, "two").claim_next() as claim:
            assert claim.n == 2

    @pytest.mark.parametrize("fact", ["boot_id", "holds_alive"])
    def test_no_shortcut_on_another_machine(self, plan, claimer, fact):
        """With another boot, or an owner that could not lock, a free lock proves nothing."""
        planned = plan(ttl_s=60.0)
        claimer(planned).claim_next().close()
        path = planned.store.layout.claim(planned.gids[0], 1)
        path.write_text(json.dumps({**json.loads(path.read_bytes()), fact: ""}))

        assert claimer(planned, "two").claim_next() == Idle(busy=planned.gids)

    def test_stale(self, plan, claimer):
        """An owner that stopped to beat is followed after one TTL of the observer's clock, whatever its file times say."""
        planned = plan(ttl_s=1.0)
        paused = without_alive(claimer(planned).claim_next())
        os.utime(paused.work_dir / "beat", (4e9, 4e9))
        peer = claimer(planned, "two")
        early = peer.claim_next()
        started = time.monotonic()
        with claimed_after_stale(peer) as claim:
            waited = time.monotonic() - started

            assert early == Idle(busy=planned.gids)
            assert claim.n == 2
            assert waited >= 0.95
            assert paused.is_superseded()
        paused.close()

    def test_beating_is_never_followed(self, plan, claimer):
        """An owner that beats keeps its group, though its file times lie far in the past."""
        planned = plan(ttl_s=1.5)
        owner, peer = claimer(planned).claim_next(), claimer(planned, "two")
        stop, found = time.monotonic() + 2.4, []
        while time.monotonic() < stop:
            os.utime(owner.work_dir / "beat", (0, 0))
            found.append(peer.claim_next())
            time.sleep(0.1)
        owner.close()

        assert set(found) == {Idle(busy=planned.gids)}

    def test_killed_before_its_first_beat(self, plan, claimer):
        """A claim without a beat is followed after one TTL too."""
        planned = plan(ttl_s=1.0)
        path = planned.store.layout.claim(planned.gids[0], 1)
        path.parent.mkdir()
        path.write_text('{"kind": "attempt"}')

        with claimed_after_stale(claimer(planned)) as claim:
            assert claim.n == 2

    def test_reset(self, plan, claimer):
        """A generation of kind reset is followed at once."""
        planned = plan()
        path = planned.store.layout.claim(planned.gids[0], 1)
        path.parent.mkdir()
        path.write_text('{"kind": "reset"}')

        with claimer(planned).claim_next() as claim:
            assert claim.n == 2

    def test_successor_has_its_own_directory(self, plan, claimer):
        """The successor never works in the directory of its predecessor, whose owner may only be paused."""
        planned = plan()
        first = claimer(planned).claim_next()
        first.end("released")

        with claimer(planned).claim_next() as second:
            assert second.work_dir != first.work_dir
