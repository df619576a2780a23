"""Claims about what a runner may take."""

import errno
import json
from dataclasses import replace

import pytest

from contilab.disk.lock import Lock
from contilab.errors import UsageError
from contilab.store.claim import Claim
from contilab.store.claimer import Claimer, Idle
from contilab.store.store import create_store


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

    def test_the_longest_first(self, plan, claimer):
        """Of open groups that with the most arithmetic goes first, whatever chance says."""
        planned = plan(groups=6)
        flops = {rid: 10**9 * 4**place for place, rid in enumerate(planned.rids[1:])}  # of the first none are known
        [cell] = planned.study.cells
        cells = [replace(cell, runs={run.seed: run.rid}, flops=flops.get(run.rid, 0)) for run in planned.runs]
        planned.store.add_study(replace(planned.study, cells=tuple(cells)))
        claims = [claimer(planned, f"runner{place}").claim_next() for place in range(6)]

        assert [claim.rids for claim in claims] == [(rid,) for rid in reversed(planned.rids)]
        for claim in claims:
            claim.close()

    def test_what_was_seen_busy_comes_last(self, plan, claimer):
        """A runner does not look again first at what others train, and gets it all the same once they let it go."""
        planned = plan(groups=3)
        [cell] = planned.study.cells
        cells = [replace(cell, runs={run.seed: run.rid}, flops=4**run.seed) for run in planned.runs]
        planned.store.add_study(replace(planned.study, cells=tuple(cells)))
        longest, runner = claimer(planned, "one").claim_next(), claimer(planned, "two")
        claims = [runner.claim_next()]
        longest.end("released")
        longest.close()
        claims += [runner.claim_next(), runner.claim_next()]

        assert [claim.rids for claim in claims] == [(planned.rids[place],) for place in (1, 0, 2)]
        for claim in claims:
            claim.close()

    def test_finished_runs_make_no_group_longer(self, plan, claimer):
        """What has a result counts no more: two open runs go before one that is left of a group of three."""
        planned = plan(groups=2, members=3)
        [cell] = planned.study.cells
        planned.store.add_study(replace(planned.study, cells=(replace(cell, flops=10**9),)))
        long, short = (planned.store.group(gid) for gid in planned.gids)
        for rid in (*long[:1], *short[:2]):
            (planned.store.layout.results / rid).mkdir()

        with claimer(planned).claim_next() as claim:
            assert claim.gid == planned.gids[0]

    def test_runners_spread_over_groups_as_long(self, plan, claimer):
        """Groups between two powers of two come in an order that chance decides, so that not all runners try the same one."""
        planned = plan(groups=4)
        [cell] = planned.study.cells
        cells = [replace(cell, runs={run.seed: run.rid}, flops=1025 + 200 * run.seed) for run in planned.runs]
        planned.store.add_study(replace(planned.study, cells=tuple(cells)))
        firsts = set()
        for _ in range(100):
            with claimer(planned).claim_next() as claim:
                firsts.add(claim.gid)
                claim.end("released")

        assert firsts == set(planned.gids)

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

    def test_new_plan_is_seen(self, plan, claimer, finish):
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

    @pytest.mark.parametrize(("ttl_s", "longest"), [(120, 5.0), (2, 0.5)])
    def test_pause(self, tmp_path, ttl_s, longest):
        """Polls become rarer, up to one in 5 s with jitter, or in a quarter of a short TTL."""
        runner = Claimer(create_store(tmp_path, ttl_s), runner="r", versions={})
        pauses = [runner.pause_seconds() for _ in range(50)]

        assert pauses[0] <= 1.25 * 0.25
        assert all(0.75 * longest <= pause <= 1.25 * longest for pause in pauses[10:])

    @pytest.mark.parametrize("change", ["ended", "followed", "won"])
    def test_pause_after_a_change(self, plan, claimer, finish, change):
        """An idle runner polls rarely while nothing happens, and looks again soon after a group changed or a claim was won."""
        planned = plan(groups=2, ttl_s=60.0)
        owner, idle = claimer(planned), claimer(planned, "idle")
        first, second = owner.claim_next(), owner.claim_next()
        for _ in range(10):
            idle.claim_next()
            idle.pause_seconds()
        before = idle.pause_seconds()
        if change == "ended":
            finish(first)
        else:
            first.end("released")
        if change == "followed":
            owner.claim_next()
        found = idle.claim_next()
        after = idle.pause_seconds()
        second.close()

        assert isinstance(found, Claim) == (change == "won")
        assert before > 1.0
        assert after < 0.5

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

    def test_finished_during_the_walk(self, plan, claimer, monkeypatch, finish):
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
        assert planned.end()["kind"] == "env"
        assert planned.end()["errno"] == "ENOSPC"
        assert planned.end()["path"].endswith("/1/beat")

    @pytest.mark.parametrize("is_there", [True, False])
    def test_claim_refused_by_the_disk(self, plan, claimer, monkeypatch, is_there):
        """A claim that met a fault is ended as one if it stands all the same, is not charged, and holds no lock."""
        planned = plan(ttl_s=60.0)
        layout = planned.store.layout

        def refuse(path, data):
            if is_there:
                path.parent.mkdir()
                path.write_bytes(data)
            raise OSError(errno.EIO, "Input/output error", str(path.parent))

        monkeypatch.setattr("contilab.store.claimer.put_new", refuse)
        with pytest.raises(OSError, match="Input/output error"):
            claimer(planned).claim_next()
        monkeypatch.undo()
        lock = Lock(layout.alive(planned.gids[0], 1))
        answer = lock.acquire()
        lock.release()

        assert answer == "held"
        assert layout.end(planned.gids[0], 1).exists() == is_there
        with claimer(planned, "two").claim_next() as claim:
            assert claim.n == (2 if is_there else 1)
