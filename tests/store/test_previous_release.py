"""Claims about stores that the previous release made: same format, fewer directories, no checkpoints."""

import shutil

import pytest

from contilab.store.cancel import cancel
from contilab.store.claimer import Claimer, Idle
from contilab.store.collect import Collected, collect
from contilab.store.prune import Pruned, prune
from contilab.store.retry import Retried, retry
from contilab.store.status import counts, study_status
from contilab.store.store import open_store

NEW = ("quarantine", "cancel", "damaged")


@pytest.fixture
def old(plan, finish):
    """A store of three groups: one done, one that failed once, one that waits; without the directories of this release."""
    planned = plan(groups=3)
    runner = Claimer(planned.store, runner="old", versions={})
    finish(runner.claim_next())
    runner.claim_next().fail(ValueError("too much"))
    runner.close()
    for name in NEW:
        shutil.rmtree(planned.root / name)
    return planned


class TestPreviousRelease:
    """Its stores are read, and worked on."""

    def test_read(self, old):
        """Every look at it answers, and makes no directory."""
        store = open_store(old.root)

        assert counts(study_status(store, old.study)) == {"done": 1, "waiting": 2}
        assert retry(store) == Retried()
        assert prune(store, "study", is_dry_run=True) == Pruned(0, (), ())
        assert collect(store) == Collected()
        assert not any((old.root / name).exists() for name in NEW)

    def test_worked_on(self, old, finish):
        """Its groups are trained by this release, until nothing is open."""
        runner = Claimer(open_store(old.root), runner="new", versions={})
        while not isinstance(claim := runner.claim_next(), Idle):
            finish(claim)

        assert old.store.results() == set(old.rids)

    def test_directories_are_made_when_needed(self, old):
        """Cancelling, quarantine and moving aside work in it."""
        store, layout = open_store(old.root), old.store.layout
        (done,) = store.taken()
        (layout.result(done) / "MANIFEST.json").unlink()
        cancelled = cancel(store, "study").groups
        released = retry(store, "study")
        for _ in range(9):
            claim = Claimer(store, runner="new", versions={}).claim_next()
            if not isinstance(claim, Idle):
                claim.fail(ValueError("too much"))

        assert len(cancelled) == 2
        assert (set(released.groups), released.results) == (set(cancelled), (done,))
        assert set(Claimer(store, runner="new", versions={}).claim_next().quarantined) == set(old.gids)
        assert all((old.root / name).is_dir() for name in NEW)
