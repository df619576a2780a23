"""Claims about one attempt: what it may take, how it is followed, how it ends."""

import errno
import json
import os
import time

import pytest

from contilab.disk.lock import Lock
from contilab.errors import EnvironmentFault, UsageError
from contilab.store.claim import Claim
from contilab.store.claimer import Claimer, Idle
from contilab.store.store import create_store


@pytest.fixture
def claimer():
    """Make runners by name."""

    def make(planned, name="one"):
        return Claimer(planned.store, runner=name, versions={"contilab": "0"})

    return make


def finish(claim):
    """Build and publish the results of *claim*."""
    for rid in claim.rids:
        claim.put_files(rid, {"numbers": rid.encode()})
    return claim.publish(dict.fromkeys(claim.rids, "finished"), frozenset({"numbers"}))


def end_of(planned, n=1):
    """Return what the `.end` of generation *n* of the first group says."""
    return json.loads(planned.store.layout.end(planned.gids[0], n).read_bytes())


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


class TestClaimNext:
    """A runner gets an open group that nobody works on."""

    def test_first(self, plan, claimer):
        """The first claim is generation 1, with a nonce, the boot, the versions and where it starts, and it beats."""
        planned = plan(members=2)

        with claimer(planned).claim_next() as claim:
            record = json.loads(planned.store.layout.claim(claim.gid, 1).read_bytes())
            beat = json.loads((claim.work_dir / "beat").read_bytes())

        assert (claim.gid, claim.n, claim.rids) == (planned.gids[0], 1, tuple(sorted(planned.rids)))
        assert len(record.pop("nonce")) == 32
        assert len(record.pop("boot_id")) == 36
        assert record == {
            "kind": "attempt",
            "n": 1,
            "runner": "one",
            "versions": {"contilab": "0"},
            "start": {"step": 0, "results": 0},
            "holds_alive": True,
        }
        assert beat["runner"] == "one"

    def test_taken_by_another(self, plan, claimer):
        """A group that another runner works on is busy, and the others are free."""
        planned = plan(groups=2)
        first = claimer(planned).claim_next()

        second = claimer(planned, "two").claim_next()
        third = claimer(planned, "three").claim_next()

        assert {first.gid, second.gid} == set(planned.gids)
        assert third == Idle(busy=third.busy)
        assert set(third.busy) == set(planned.gids)
        first.close()
        second.close()

    def test_nothing_open(self, drained, claimer):
        """With all results there, a runner has come to its end."""
        assert claimer(drained).claim_next() == Idle()

    def test_only_open_runs(self, plan, claimer):
        """Runs of the group that have a result, or something damaged under its name, are not trained again."""
        planned = plan(members=3)
        (planned.store.layout.results / planned.rids[1]).mkdir()

        with claimer(planned).claim_next() as claim:
            assert claim.rids == tuple(sorted({planned.rids[0], planned.rids[2]}))

    def test_only_wanted_runs(self, plan, claimer):
        """Runs that no current plan names are not trained, and a study can be asked for alone."""
        planned = plan(groups=2)
        other = planned.study.__class__(name="other", manifest="", values=(), cells=())
        planned.store.add_study(other)

        found = claimer(planned).claim_next(study="other")
        planned.store.add_study(other.__class__(name="study", manifest="", values=(), cells=()))

        assert found == Idle()
        assert claimer(planned).claim_next() == Idle()

    def test_unknown_study(self, plan, claimer):
        """A study that is not there is refused."""
        with pytest.raises(UsageError, match="no study"):
            claimer(plan()).claim_next(study="none")

    def test_only_accepted_runs(self, plan, claimer):
        """A group without a run that the runner accepts is refused, one with such a run is trained in part."""
        planned = plan(members=2)

        refused = claimer(planned).claim_next(accepts=lambda _: False)
        with claimer(planned).claim_next(accepts=lambda rid: rid == planned.rids[1]) as claim:
            assert claim.rids == (planned.rids[1],)

        assert refused == Idle(refused=planned.gids)

    def test_new_plan_is_seen(self, plan, claimer):
        """A runner that waits sees what is planned later."""
        planned, later = plan(), plan(groups=2)
        runner = claimer(planned)
        finish(runner.claim_next())
        idle = runner.claim_next()
        planned.store.add_runs(later.runs)
        planned.store.add_groups([[later.rids[1]]])
        planned.store.add_study(later.study)

        with runner.claim_next() as claim:
            assert claim.rids == (later.rids[1],)

        assert idle == Idle()

    def test_walks_differ(self, plan, claimer):
        """Runners start at different groups, so that they do not meet at each."""
        planned = plan(groups=20)
        first = set()
        for name in range(12):
            with claimer(planned, str(name)).claim_next() as claim:
                first.add(claim.gid)
                claim.end("released")

        assert len(first) > 3

    def test_pause(self, tmp_path):
        """Polls come every 5 s with jitter, and more often where the TTL is short."""
        slow = Claimer(create_store(tmp_path / "slow", 120), runner="r", versions={})
        fast = Claimer(create_store(tmp_path / "fast", 2), runner="r", versions={})

        assert all(3.75 <= slow.pause_seconds() <= 6.25 for _ in range(50))
        assert all(0.375 <= fast.pause_seconds() <= 0.625 for _ in range(50))

    def test_locked_by_a_paused_peer(self, plan, claimer, monkeypatch):
        """A group whose lock stays busy is left alone for 2 TTL; then the runner goes on without the lock."""
        planned, now = plan(ttl_s=60.0), [0.0]
        monkeypatch.setattr("contilab.store.claimer.boottime", lambda: now[0])
        lock, runner = Lock(planned.store.layout.lock(planned.gids[0])), claimer(planned)
        lock.acquire()
        found = []
        for seconds in (0, 60, 119, 121):
            now[0] = seconds
            found.append(runner.claim_next())
        lock.release()

        assert found[:3] == [Idle(busy=planned.gids)] * 3
        assert found[3].n == 1
        found[3].close()

    def test_link_lost(self, plan, claimer, monkeypatch):
        """Who loses the link of a claim goes on, and holds no lock of the winner."""
        planned = plan()
        monkeypatch.setattr("contilab.store.claimer.put_new", lambda *_: False)
        lost = claimer(planned).claim_next()
        monkeypatch.undo()

        assert lost == Idle(busy=planned.gids)
        with claimer(planned, "two").claim_next() as claim:
            assert claim.n == 1

    def test_finished_during_the_walk(self, plan, claimer, monkeypatch):
        """A group that a peer finished after our look at the results is not trained once more."""
        planned = plan(groups=2)
        runner = claimer(planned)
        before = runner._walk(None)
        while isinstance(claim := claimer(planned, "two").claim_next(), Claim):
            finish(claim)
        monkeypatch.setattr(runner, "_walk", lambda _: before)

        assert runner.claim_next() == Idle()

    def test_disk_full(self, plan, claimer, monkeypatch):
        """Where the first beat cannot be written the attempt ends as a fault of the machine, and the runner hears it."""
        planned = plan()

        def full(path, data):
            raise OSError(errno.ENOSPC, "no space left", str(path))

        monkeypatch.setattr("contilab.store.heartbeat.write_synced", full)

        with pytest.raises(OSError, match="no space left"):
            claimer(planned).claim_next()
        assert end_of(planned)["kind"] == "env"
        assert end_of(planned)["errno"] == "ENOSPC"
        assert end_of(planned)["path"].endswith("/1/beat")


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
        stop, found = time.monotonic() + 3.2, []
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


class TestPublish:
    """Results are written once."""

    def test_done(self, plan, claimer):
        """All results arrive, `.end done` is written, nothing stays in the working directory but the beat."""
        planned = plan(members=2)
        claim = claimer(planned).claim_next()

        done = finish(claim)

        assert sorted(done.landed) == sorted(planned.rids)
        assert end_of(planned) == {"kind": "done", "runner": "one"}
        assert sorted(path.name for path in claim.work_dir.rglob("*")) == ["beat", "out"]

    def test_in_parts(self, plan, claimer):
        """Runs may be published one after the other; the attempt is done with the last."""
        planned = plan(members=2)
        with claimer(planned).claim_next() as claim:
            for rid in claim.rids:
                claim.put_files(rid, {"numbers": b"1"})
            claim.publish({claim.rids[0]: "finished"}, frozenset())
            ends = [planned.store.layout.end(claim.gid, 1).exists()]
            claim.publish({claim.rids[1]: "diverged"}, frozenset())
            ends.append(planned.store.layout.end(claim.gid, 1).exists())

        assert ends == [False, True]
        assert [planned.store.result_state(rid) for rid in claim.rids] == ["finished", "diverged"]

    def test_superseded(self, plan, claimer):
        """An owner that was followed publishes nothing, keeps its output in late/ and says so in its `.end`."""
        planned = plan()
        late = claimer(planned).claim_next()
        planned.store.layout.claim(planned.gids[0], 2).write_text("{}")

        done = finish(late)

        assert done.is_superseded
        assert planned.store.taken() == set()
        assert end_of(planned)["kind"] == "superseded"
        assert (late.work_dir / "late" / planned.rids[0] / "numbers").exists()

    def test_collected(self, plan, claimer, tmp_path):
        """An owner whose working directory was collected is superseded, and notices it with its next beat."""
        planned = plan()
        late = claimer(planned).claim_next()
        late.put_files(planned.rids[0], {"numbers": b"1"})
        late.work_dir.rename(tmp_path / "collected")
        late._heartbeat._beat()

        done = late.publish({planned.rids[0]: "finished"}, frozenset())

        assert late.is_superseded()
        assert done.is_superseded

    def test_collected_past_the_fence(self, plan, claimer, tmp_path, monkeypatch):
        """Collected between fence and rename, it is superseded all the same."""
        planned = plan()
        late = claimer(planned).claim_next()
        late.put_files(planned.rids[0], {"numbers": b"1"})
        place = "publish.fenced"
        monkeypatch.setattr(
            "contilab.store.claim.failpoint", lambda name: name == place and late.work_dir.rename(tmp_path / "collected")
        )

        assert late.publish({planned.rids[0]: "finished"}, frozenset()).is_superseded

    def test_output_missing(self, plan, claimer):
        """Publishing a run that was not built is an error, never an empty result."""
        planned = plan()
        with claimer(planned).claim_next() as claim, pytest.raises(FileNotFoundError):
            claim.publish({planned.rids[0]: "finished"}, frozenset())

        assert planned.store.taken() == set()


class TestEnd:
    """An attempt tells how it ended, once."""

    def test_failed(self, plan, claimer):
        """An exception is kept with class, text and traceback, and the group is not tried again by this runner."""
        planned = plan()
        one, two = claimer(planned), claimer(planned, "two")
        claim = one.claim_next()
        with pytest.raises(ValueError, match="too much") as raised:
            int("3 is too much")
        claim.fail(raised.value)
        again = one.claim_next()

        assert end_of(planned)["kind"] == "failed"
        assert (end_of(planned)["class"], end_of(planned)["text"]) == ("ValueError", str(raised.value))
        assert end_of(planned)["traceback"].endswith(f"ValueError: {raised.value}\n")
        assert again == Idle(failed=planned.gids)
        with two.claim_next() as second:
            second.end("released")
        assert one.claim_next() == Idle(failed=planned.gids)

    @pytest.mark.parametrize(
        ("error", "name"),
        [
            (OSError(errno.ENOSPC, "full", "/s/x"), "OSError"),
            (EnvironmentFault("gpu", "lost"), "contilab.errors.EnvironmentFault"),
        ],
    )
    def test_machine(self, plan, claimer, error, name):
        """A fault of the machine is not a failure of the group."""
        planned = plan()

        claimer(planned).claim_next().fail(error)

        assert (end_of(planned)["kind"], end_of(planned)["class"]) == ("env", name)

    def test_text_that_is_no_unicode(self, plan, claimer):
        """A message with a file name that is not UTF-8 can be kept."""
        planned = plan()

        claimer(planned).claim_next().fail(RuntimeError("bad name \udcff"))

        assert end_of(planned)["text"] == "bad name \\udcff"

    def test_first_end_stays(self, plan, claimer):
        """A second end changes nothing."""
        planned = plan()
        claim = claimer(planned).claim_next()
        claim.end("released")
        claim.end("failed")

        assert end_of(planned)["kind"] == "released"

    def test_unknown_kind(self, plan, claimer):
        """Only the kinds of the protocol can be written."""
        planned = plan()
        with claimer(planned).claim_next() as claim, pytest.raises(ValueError, match="done, released, superseded"):
            claim.end("finished")
