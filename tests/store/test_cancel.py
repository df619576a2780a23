"""Claims about cancelling."""

import time

import pytest

from contilab.errors import UsageError
from contilab.store.cancel import Cancelled, cancel
from contilab.store.claimer import Idle
from contilab.store.layout import short
from contilab.store.retry import retry
from contilab.store.status import study_status


def wait_until(seen, seconds=5.0):
    """Wait until *seen* is true; return whether it became so in time."""
    deadline = time.monotonic() + seconds
    while not seen() and time.monotonic() < deadline:
        time.sleep(0.02)
    return seen()


class TestCancel:
    """A cancelled group is claimed no more, and its owner stops."""

    def test_waiting(self, plan, claimer):
        """A group that was never claimed is cancelled at generation 0, and nobody claims it."""
        planned = plan(groups=2)

        done = cancel(planned.store, "study")

        assert sorted(done.groups) == sorted(planned.gids)
        assert all(planned.store.layout.cancel(gid, 0).exists() for gid in planned.gids)
        idle = claimer(planned).claim_next()
        assert (set(idle.cancelled), idle.busy) == (set(planned.gids), ())

    def test_running(self, plan, claimer):
        """The owner sees it at a beat, keeps a checkpoint, and ends as cancelled; then nobody follows."""
        planned = plan()
        with claimer(planned).claim_next() as claim:
            before = claim.is_cancelled()
            cancel(planned.store, planned.gids[0])
            is_seen = wait_until(claim.is_cancelled)
            claim.save_checkpoint(3, {"state": b"1"})
            claim.end("cancelled")

        assert (before, is_seen) == (False, True)
        assert planned.end()["kind"] == "cancelled"
        assert claimer(planned, "two").claim_next() == Idle(cancelled=planned.gids)

    def test_claimed_at_the_same_moment(self, plan, claimer):
        """A claim that slipped in between looking and writing sees the record of the generation below it."""
        planned = plan()
        with claimer(planned).claim_next() as claim:
            planned.store.layout.cancel(planned.gids[0], 0).write_text("{}")

            assert wait_until(claim.is_cancelled)

    def test_just_finishing(self, plan, claimer, finish):
        """A result that lands first stays, and the run is done."""
        planned = plan()
        with claimer(planned).claim_next() as claim:
            cancel(planned.store, planned.gids[0])
            finish(claim)

        assert [status.state for status in study_status(planned.store, planned.study).values()] == ["done"]

    def test_finished(self, drained):
        """Where all runs have results there is nothing to cancel."""
        assert cancel(drained.store, "study") == Cancelled()
        assert cancel(drained.store, drained.gids[0]) == Cancelled()

    def test_twice(self, plan):
        """A second time it finds nothing to do."""
        planned = plan()
        cancel(planned.store, "study")

        assert cancel(planned.store, "study") == Cancelled(already=planned.gids)

    def test_run(self, plan):
        """A run is refused, with its group named."""
        planned = plan(members=2)

        with pytest.raises(UsageError, match=short(planned.gids[0])):
            cancel(planned.store, planned.rids[0])

    def test_run_without_a_group(self, plan):
        """So is a run that is in no group."""
        planned = plan()
        planned.store.layout.group(planned.gids[0]).unlink()

        with pytest.raises(UsageError, match="no group yet"):
            cancel(planned.store, planned.rids[0])

    def test_needed_by_another_study(self, plan):
        """Groups that another study needs are left out and named, unless they are asked for by their own address."""
        planned = plan(groups=2)
        cells = planned.study.cells[0]
        shared = type(planned.study)(
            name="other", manifest="", values=(), cells=(type(cells)(**{**vars(cells), "runs": {0: planned.rids[0]}}),)
        )
        planned.store.add_study(shared)

        of_study, of_group = cancel(planned.store, "study"), cancel(planned.store, planned.gids[0])

        assert of_study == Cancelled((planned.gids[1],), {planned.gids[0]: ("other",)})
        assert of_group == Cancelled((planned.gids[0],))

    def test_until_retry(self, plan, claimer):
        """It holds until `retry` names it; what was running then is followed, not stopped."""
        planned = plan()
        cancel(planned.store, "study")
        released = [retry(planned.store).groups, retry(planned.store, "study").groups]

        assert released == [(), planned.gids]
        with claimer(planned).claim_next() as claim:
            assert claim.n == 2
            assert not wait_until(claim.is_cancelled, 1.2)

    def test_after_a_retry(self, plan, claimer):
        """A group that was released can be cancelled again."""
        planned = plan()
        cancel(planned.store, "study")
        retry(planned.store, "study")

        assert cancel(planned.store, "study").groups == planned.gids
        assert claimer(planned).claim_next() == Idle(cancelled=planned.gids)
