"""Claims about what idle runners remove."""

import os
import time

import pytest

from contilab.disk.put_new import TEMP
from contilab.store.claimer import Claimer, Idle
from contilab.store.collect import DAY_SECONDS, Collected, collect

DAY = DAY_SECONDS + 60


def age(path, seconds):
    """Let *path* and all below it look *seconds* old."""
    then = time.time() - seconds
    for one in sorted((path, *path.rglob("*")), key=lambda one: len(one.parts), reverse=True):
        os.utime(one, (then, then))


class TestWork:
    """Working directories go when nobody needs them, a day later."""

    def test_done(self, drained):
        """One of a finished group goes when a day old, with its bytes counted; claims and results stay."""
        work = drained.store.layout.work(drained.gids[0], 1)
        before = drained.published()
        young = collect(drained.store)
        age(work, DAY)

        done = collect(drained.store)

        assert young == Collected()
        assert (done.works, done.temps) == (1, 0)
        assert done.bytes == 512
        assert not work.exists()
        assert drained.store.layout.end(drained.gids[0], 1).exists()
        assert drained.published() == before

    def test_one_young_file(self, drained):
        """One file below it that is younger keeps it whole."""
        work = drained.store.layout.work(drained.gids[0], 1)
        age(work, DAY)
        os.utime(work / "beat")

        assert collect(drained.store) == Collected()

    def test_store_with_another_clock(self, drained, monkeypatch):
        """Age is told by the file times of the store: the clock of the machine does not count."""
        age(drained.store.layout.work(drained.gids[0], 1), 60)
        monkeypatch.setattr(time, "time", lambda: 4e9)

        assert collect(drained.store) == Collected()

    def test_open_group(self, handed_on):
        """One of a group that is not finished stays, however old: its checkpoint is the newest."""
        planned = handed_on()
        age(planned.store.layout.work(planned.gids[0], 1), 30 * DAY)

        assert collect(planned.store) == Collected()

    def test_later_checkpoint(self, handed_on, claimer):
        """A predecessor's goes once its successor holds a valid checkpoint at least as new; the successor's stays."""
        planned = handed_on()
        with claimer(planned, "two").claim_next() as claim:
            for n in (1, 2):
                age(planned.store.layout.work(claim.gid, n), DAY)

            assert collect(planned.store).works == 1
            assert claim.checkpoint().step == 5
            assert not planned.store.layout.work(claim.gid, 1).exists()

    def test_later_checkpoint_damaged(self, handed_on, claimer):
        """A damaged one is no reason to remove a good one."""
        planned = handed_on()
        with claimer(planned, "two").claim_next() as claim:
            (claim.work_dir / "ckpt-5" / "weights").unlink()
            for n in (1, 2):
                age(planned.store.layout.work(claim.gid, n), DAY)

            assert collect(planned.store) == Collected()

    def test_owner_is_superseded(self, plan, claimer):
        """An owner that slept so long that its directory is gone publishes nothing."""
        planned = plan()
        late = claimer(planned).claim_next()
        late._heartbeat.stop()
        planned.store.layout.end(late.gid, 1).write_text("{}")
        with claimer(planned, "two").claim_next() as second:
            second.save_checkpoint(1, {"state": b"1"})
            age(late.work_dir, DAY)
            collect(planned.store)

            assert not late.work_dir.exists()
            assert late.publish({planned.rids[0]: "finished"}, frozenset()).is_superseded

    def test_disagreeing_output(self, plan, claimer):
        """Output that disagrees with what was published stays, with its record; the rest goes."""
        planned = plan()
        first, layout = claimer(planned).claim_next(), planned.store.layout
        layout.end(first.gid, 1).write_text("{}")
        second = claimer(planned, "two").claim_next()
        for claim, data in ((second, b"one"), (first, b"two")):
            claim.put_files(planned.rids[0], {"numbers": data})
        second.publish({planned.rids[0]: "finished"}, frozenset({"numbers"}), circumstances={"same": 1})
        layout.claim(first.gid, 2).rename(layout.root / "hidden")  # so that the first passes its fence
        first.publish({planned.rids[0]: "finished"}, frozenset({"numbers"}), circumstances={"same": 1})
        (layout.root / "hidden").rename(layout.claim(first.gid, 2))
        age(layout.work(first.gid, 1), DAY)
        collect(planned.store)

        kept = sorted(str(path.relative_to(first.work_dir)) for path in first.work_dir.rglob("*") if path.is_file())
        assert kept == [f"late/{planned.rids[0]}/{name}" for name in ("MANIFEST.json", "numbers")]
        assert len(planned.store.mismatches()) == 1


class TestTemps:
    """What killed processes left goes too."""

    @pytest.mark.parametrize("folder", ["", "results", "runs", "claims/{gid}", "studies/study", "work/{gid}/1", "quarantine"])
    def test_everywhere(self, handed_on, folder):
        """A temp that is a day old goes from wherever temps are made, a younger one stays."""
        planned = handed_on()
        directory = planned.root / folder.format(gid=planned.gids[0])
        old, young = directory / f"{TEMP}old", directory / f"{TEMP}young"
        for path in (old, young):
            path.mkdir()
            (path / "file").write_text("12345")
        age(old, DAY)

        assert collect(planned.store) == Collected(temps=1, bytes=5)
        assert young.exists()
        assert not old.exists()

    def test_reserve_of_a_killed_runner(self, drained):
        """The space that a killed runner held back is given back a day later."""
        path = drained.store.layout.reserve("killed")
        path.write_bytes(bytes(9))
        age(path, DAY)

        assert collect(drained.store) == Collected(temps=1, bytes=9)

    def test_what_cannot_be_removed(self, drained, monkeypatch):
        """What another user owns, or a server holds, is left to others, and is no error."""
        work = drained.store.layout.work(drained.gids[0], 1)
        age(work, DAY)

        def refuse(*_):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(type(work), "rename", refuse)

        assert collect(drained.store) == Collected()
        assert work.exists()

    def test_leaves_no_trace(self, drained):
        """Looking for the time of the store leaves no file."""
        before = {path for path in drained.root.rglob("*") if "reserve" not in path.name}
        collect(drained.store)

        assert {path for path in drained.root.rglob("*") if "reserve" not in path.name} == before


class TestReserve:
    """A runner holds space back for its last words."""

    def test_held(self, plan, claimer):
        """It is there from the first walk, 64 KiB, and goes with the runner."""
        planned = plan()
        runner = claimer(planned)
        runner.claim_next().end("released")
        size = planned.store.layout.reserve("one").stat().st_size
        runner.close()

        assert size == 65536
        assert not planned.store.layout.reserve("one").exists()

    def test_given_back_first(self, plan, claimer):
        """An end for want of space finds it free, and the next walk fills it again."""
        planned, seen = plan(), []
        runner = claimer(planned)
        claim = runner.claim_next()
        claim.fail(OSError(28, "No space left on device"))
        seen.append(planned.store.layout.reserve("one").exists())
        runner.claim_next().close()
        seen.append(planned.store.layout.reserve("one").exists())

        assert seen == [False, True]

    def test_other_ends(self, plan, claimer, monkeypatch):
        """Any other end that finds the disk full gives it back and is written then."""
        planned = plan()
        with claimer(planned).claim_next() as claim:
            reserve = planned.store.layout.reserve("one")

            def put(path, data):
                if reserve.exists():
                    raise OSError(28, "No space left on device", str(path))
                path.write_bytes(data)

            monkeypatch.setattr("contilab.store.claim.put_new", put)
            claim.end("released")

        assert planned.end()["kind"] == "released"

    def test_no_space_for_it(self, plan, monkeypatch):
        """Where there is none nothing is claimed, since the attempt could not say how it ended; no part of it stays."""
        planned = plan()

        def full(path, data):
            path.write_bytes(data[:100])
            raise OSError(28, "No space left on device", str(path))

        monkeypatch.setattr("contilab.store.reserve.write_synced", full)
        with pytest.raises(OSError, match="No space left"):
            Claimer(planned.store, runner="one", versions={}).claim_next()

        assert not planned.store.layout.claim(planned.gids[0], 1).exists()
        assert not planned.store.layout.reserve("one").exists()

    def test_nothing_to_claim(self, drained, monkeypatch):
        """Where all is done a full disk is no fault."""

        def full(path, data):
            raise OSError(28, "No space left on device", str(path))

        monkeypatch.setattr("contilab.store.reserve.write_synced", full)

        assert Claimer(drained.store, runner="two", versions={}).claim_next() == Idle()
