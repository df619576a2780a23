"""Claims about retrying."""

import json
import threading

import pytest

from contilab.disk.publish import MANIFEST
from contilab.errors import UsageError
from contilab.store.cancel import cancel
from contilab.store.claimer import Claimer, Idle
from contilab.store.retry import Retried, retry
from contilab.store.store import open_store


def quarantined(planned):
    """Fail every group three times, and once more to have it written down."""
    for _ in range(4 * len(planned.gids)):
        claim = Claimer(planned.store, runner="one", versions={}).claim_next()
        if not isinstance(claim, Idle):
            claim.fail(ValueError("too much"))
    return planned


def at_once(action, count=8):
    """Do *action* in *count* threads behind a barrier; return what each of them said."""
    barrier, said = threading.Barrier(count), []

    def one():
        barrier.wait()
        said.append(action())

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return said


class TestRetry:
    """A reset above what blocks a group releases it."""

    @pytest.mark.parametrize("what", ["study", "group", "run", "digits", None])
    def test_released(self, plan, claimer, what):
        """A group in quarantine is released by its study, itself, a run of it, their first digits, and by naming nothing."""
        planned = quarantined(plan(members=2))
        names = {"study": "study", "group": planned.gids[0], "run": planned.rids[1], "digits": planned.gids[0][:12], None: None}

        done = retry(planned.store, names[what])

        assert done == Retried(groups=planned.gids)
        with claimer(planned).claim_next() as claim:
            assert claim.n == 5
            assert json.loads(planned.store.layout.claim(claim.gid, 4).read_bytes())["kind"] == "reset"

    def test_everything_quarantined(self, plan):
        """Naming nothing releases all that is in quarantine, and leaves what a user cancelled."""
        planned = quarantined(plan(groups=3))
        cancel(planned.store, planned.gids[0])

        assert sorted(retry(planned.store).groups) == sorted(planned.gids[1:])

    def test_nothing_to_do(self, plan):
        """Groups that wait, run or are done are left alone: there is no unlock verb."""
        planned = plan()
        with Claimer(planned.store, runner="one", versions={}).claim_next():
            assert retry(planned.store, "study") == Retried()
        assert not planned.store.layout.claim(planned.gids[0], 2).exists()

    def test_two_at_once(self, plan):
        """Of eight at once one wins, the others find nothing to do, and one reset is written."""
        planned = quarantined(plan())

        said = at_once(lambda: retry(open_store(planned.root), "study").groups)

        assert sorted(said) == [()] * 7 + [planned.gids]
        assert not planned.store.layout.claim(planned.gids[0], 5).exists()

    def test_unknown(self, plan):
        """A name that means nothing is refused, and the studies are named."""
        with pytest.raises(UsageError, match="has the studies study"):
            retry(plan().store, "stduy")


class TestUnusableResults:
    """Results that cannot be used go aside, so that their runs are trained again."""

    @pytest.mark.parametrize("damage", ["no manifest", "altered", "a file", "empty"])
    def test_aside(self, drained, claimer, damage):
        """It is moved to damaged/ as it is, and the run is open again; the good one stays."""
        path = drained.store.result_dir(drained.rids[0])
        if damage == "altered":
            (path / "numbers").write_bytes((path / "numbers").read_bytes()[::-1])
        elif damage == "no manifest":
            (path / MANIFEST).unlink()
        else:
            for file in path.iterdir():
                file.unlink()
            if damage == "a file":
                path.rmdir()
                path.write_text("?")

        done = retry(drained.store, "study")

        assert done == Retried(results=(drained.rids[0],))
        assert [kept.name[:64] for kept in drained.store.layout.damaged.iterdir()] == [drained.rids[0]]
        with claimer(drained).claim_next() as claim:
            assert claim.rids == (drained.rids[0],)

    def test_only_what_was_named(self, drained):
        """Naming one run leaves the others, and naming nothing moves none."""
        for rid in drained.rids:
            (drained.store.result_dir(rid) / MANIFEST).unlink()

        assert retry(drained.store) == Retried()
        assert retry(drained.store, drained.rids[1]) == Retried(results=(drained.rids[1],))

    def test_two_at_once(self, drained):
        """Of eight at once one moves it."""
        (drained.store.result_dir(drained.rids[0]) / MANIFEST).unlink()

        said = at_once(lambda: retry(open_store(drained.root), "study").results)

        assert sorted(said) == [()] * 7 + [(drained.rids[0],)]

    def test_published_meanwhile(self, drained, monkeypatch):
        """A good result that came between looking and moving is put back, byte for byte."""
        before = drained.published()
        looks = iter([True])
        monkeypatch.setattr("contilab.store.retry.altered", lambda *_: ["numbers"] if next(looks, False) else [])

        assert retry(drained.store, drained.rids[0]) == Retried()
        assert drained.published() == before
        assert list(drained.store.layout.damaged.iterdir()) == []


class TestTarget:
    """People name things by their first digits."""

    def test_ambiguous(self, plan):
        """More than one thing with that beginning is refused, and some are named."""
        planned = plan()
        for tail in "ab":
            (planned.store.layout.runs / f"{'c0ffee'}{tail * 58}.json").write_text("{}")

        with pytest.raises(UsageError, match="2 things begin so: run c0ffeeaaaaaaaaaa, run c0ffeebbbbbbbbbb"):
            retry(planned.store, "c0ffee")

    def test_too_short(self, plan):
        """Five digits are sooner a mistake than an address."""
        planned = plan()

        with pytest.raises(UsageError, match="no such study, group or run"):
            retry(planned.store, planned.gids[0][:5])
