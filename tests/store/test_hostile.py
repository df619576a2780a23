"""Claims about files that somebody damaged, replaced or put into a store: they stop nothing but themselves."""

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from contilab.cli.attempt_page import group_page, group_table, run_page, run_table
from contilab.cli.study_page import View, page, table
from contilab.errors import ContilabError
from contilab.store.cancel import cancel
from contilab.store.claim import Claim
from contilab.store.claimer import Claimer
from contilab.store.collect import collect
from contilab.store.layout import Layout
from contilab.store.prune import prune
from contilab.store.retry import retry
from contilab.store.status import study_status
from contilab.store.store import open_store
from contilab.store.usage import study_bytes

DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "binary": lambda path: path.write_bytes(bytes(range(256))),
    "deep": lambda path: path.write_bytes(b"[" * 100_000),
    "odd": lambda path: path.write_text(
        '{"kind": [1], "n": "x", "start": 3, "rid": 5, "found": null, "step": "a", "host": {}}'
    ),
    "huge": lambda path: os.truncate(path, 2**40),
    "directory": lambda path: (path.unlink(), path.mkdir(), (path / "x").touch()),
    "loop": lambda path: (path.unlink(), path.symlink_to(path.name)),
    "dangling": lambda path: (path.unlink(), path.symlink_to("nowhere")),
    "pipe": lambda path: (path.unlink(), os.mkfifo(path)),
}
FAST = ("half", "directory")
READ_IN_PART = ("beat", "log", "lock")  # all others are read whole


def files(layout, gid, rid):
    """Return one file of each kind by its name."""
    return {
        "group": layout.group(gid),
        "run": layout.run(rid),
        "claim": layout.claim(gid, 1),
        "end": layout.end(gid, 1),
        "beat": layout.beat(gid, 1),
        "log": layout.log(gid, 1),
        "lock": layout.lock(gid),
        "runner": layout.runner("first"),
        "manifest of a checkpoint": layout.checkpoint(gid, 1, 5) / "MANIFEST.json",
        "file of a checkpoint": layout.checkpoint(gid, 1, 5) / "state",
        "manifest of a result": layout.result(rid) / "MANIFEST.json",
        "quarantine": layout.quarantine(gid, 1),
        "cancel": layout.cancel(gid, 1),
        "mismatch": layout.mismatch(rid, "0" * 8),
    }


def directories(layout, gid):
    """Return the places where directories are, or will be, by their name."""
    return {
        "claims": layout.claims(gid),
        "work": layout.works / gid,
        "own work": layout.work(gid, 2),
        "checkpoint": layout.checkpoint(gid, 1, 9),
    }


NOWHERE = Layout(Path())
CASES = [(name, damage) for name in files(NOWHERE, "", "") for damage in DAMAGES if damage != "huge" or name in READ_IN_PART]


def begun(plan):
    """Return a store of two groups: the first one was begun, has a checkpoint and a log, and was released."""
    planned = plan(groups=2, ttl_s=1.0)
    planned.store.add_runner("first", {"host": "here"})
    claimer = Claimer(planned.store, runner="first", versions={})
    while (claim := claimer.claim_next()).gid != planned.gids[0]:
        claim.end("released")
    claim.save_checkpoint(5, {"state": b"at five"})
    claim.keep_line(b'{"event": "begun"}\n')
    claim.end("released")
    claimer.close()
    return planned


def looked_at(planned):
    """Look at the store in every way; what cannot be told may be one sentence."""
    for act in (
        lambda: [_pages(planned, study) for study in planned.store.studies().values()],
        lambda: [list(group_page(group_table(planned.store, gid))) for gid in planned.gids],
        lambda: [list(run_page(run_table(planned.store, rid))) for rid in planned.rids],
        planned.store.mismatches,
        planned.store.unplanned,
        lambda: collect(planned.store),
        lambda: prune(planned.store, "study", is_dry_run=True),
        lambda: retry(planned.store),
        lambda: retry(planned.store, "study"),
    ):
        with contextlib.suppress(ContilabError):
            act()


def _pages(planned, study):
    view = View(study, study_status(planned.store, study), study_bytes(planned.store, study), ())
    return [*page(planned.store, view), table(planned.store, view)]


@pytest.fixture
def finished(start_worker):
    """Return what a runner, as a process of its own, did with a store."""

    def work(planned):
        worker = start_worker("--pause", "0.05")
        worker.wait_until_ready()
        worker.send(planned.root)
        return worker.answer()

    return work


class TestFiles:
    """A file that is not what it was."""

    @pytest.mark.parametrize(
        ("name", "damage"), [pytest.param(*case, marks=[] if case[1] in FAST else [pytest.mark.slow]) for case in CASES]
    )
    def test_damaged(self, plan, finish, name, damage):
        """Whatever becomes of one file, the other group is trained, nothing ends in a traceback, and no process hangs."""
        planned = begun(plan)
        path = files(planned.store.layout, planned.gids[0], planned.rids[0])[name]
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text('{"reason": "x"}')
        DAMAGES[damage](path)
        looked_at(planned)
        claimer, claims = Claimer(planned.store, runner="second", versions={}), []
        while isinstance(claim := claimer.claim_next(accepts=lambda rid: _can_read(planned, rid)), Claim):
            claims.append(claim.gid)
            finish(claim)
        claimer.close()
        looked_at(planned)

        assert planned.gids[1] in claims
        assert len(claims) == len(set(claims))
        assert planned.store.has_result(planned.rids[1])

    @pytest.mark.parametrize("name", directories(NOWHERE, ""))
    def test_in_the_place_of_a_directory(self, plan, finish, name):
        """A file in the place of a directory stops its group at most, and the runner that meets it claims that group once."""
        planned = begun(plan)
        path = directories(planned.store.layout, planned.gids[0])[name]
        if path.is_dir():
            shutil.rmtree(path)
        path.touch()
        looked_at(planned)
        claimer, idle = Claimer(planned.store, runner="second", versions={}), None
        for _ in range(6):
            if isinstance(idle := claimer.claim_next(), Claim):
                finish(idle)
        claimer.close()
        looked_at(planned)
        numbers = [Path(found).stem for found in planned.root.glob(f"claims/{planned.gids[0]}/*.json")]

        assert planned.store.has_result(planned.rids[1])
        assert len(numbers) <= 2
        assert planned.store.has_result(planned.rids[0]) or [fault.place for fault in idle.damaged] != []

    def test_in_the_place_of_a_directory_of_the_store(self, plan):
        """A file in the place of one of the store's own directories is named by every verb."""
        planned = plan()
        shutil.rmtree(planned.root / "runners")
        (planned.root / "runners").touch()

        with pytest.raises(ContilabError, match="runners: this is no directory"):
            open_store(planned.root)

    def test_several_runners(self, plan, finished, check):
        """A real runner finishes what is left where claims, ends and beats of a group are damaged all at once."""
        planned = begun(plan)
        layout, gid = planned.store.layout, planned.gids[0]
        layout.claim(gid, 1).write_text("{")
        layout.end(gid, 1).write_text("[")
        os.truncate(layout.beat(gid, 1), 2**40)
        answer = finished(planned)

        assert {claim["gid"] for claim in answer["claims"]} == set(planned.gids)
        assert check(planned, [answer], all_told=False) == []


class TestCancelled:
    """Records that only their name counts of."""

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_record(self, plan, claimer, damage):
        """A cancel record holds by its name, whatever its content has become."""
        planned = plan()
        cancel(planned.store, "study")
        DAMAGES[damage](planned.store.layout.cancel(planned.gids[0], 0))

        assert claimer(planned).claim_next().cancelled == planned.gids


def _can_read(planned, rid):
    try:
        planned.store.run(rid)
    except ContilabError:
        return False
    return True
