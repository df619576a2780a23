"""Claims about pruning."""

import json

import pytest

from contilab.errors import UsageError
from contilab.store.claimer import Claimer
from contilab.store.prune import Pruned, prune
from contilab.store.usage import study_bytes, tree_bytes


def replan(planned, runs, name="study"):
    """Plan *name* anew with *runs* only."""
    (cell,) = planned.study.cells
    few = type(cell)(**{**vars(cell), "runs": {run.seed: run.rid for run in runs}})
    planned.store.add_study(type(planned.study)(name=name, manifest=f"{len(runs)}", values=(), cells=(few,)))


@pytest.fixture
def shrunk(plan, finish):
    """A drained store of three groups of one run, of which the current plan names the first."""
    planned = plan(groups=3)
    runner = Claimer(planned.store, runner="one", versions={})
    for _ in planned.gids:
        finish(runner.claim_next())
    runner.close()
    replan(planned, planned.runs[:1])
    return planned


def tree(planned):
    """Return every name of the store with its size."""
    return {str(path.relative_to(planned.root)): path.lstat().st_size for path in planned.root.rglob("*")}


class TestPrune:
    """What no current plan names can go."""

    def test_removed(self, shrunk):
        """Results, groups and work of the runs that were dropped go; the bytes are those that are gone."""
        before = tree_bytes(shrunk.root)

        done = prune(shrunk.store, "study", is_dry_run=False)

        assert (done.results, done.groups) == (tuple(sorted(shrunk.rids[1:])), tuple(sorted(shrunk.gids[1:])))
        assert done.bytes == before - tree_bytes(shrunk.root) > 0
        assert shrunk.store.results() == {shrunk.rids[0]}
        assert shrunk.store.group_ids() == [shrunk.gids[0]]

    def test_dry_run(self, shrunk):
        """A dry run says the same and removes nothing."""
        before = tree(shrunk)
        said = prune(shrunk.store, "study", is_dry_run=True)
        unchanged = tree(shrunk) == before

        assert unchanged
        assert said == prune(shrunk.store, "study", is_dry_run=False)

    def test_numbers_are_never_given_out_twice(self, shrunk):
        """Claims stay, so a late owner of a pruned group can take no successor for itself."""
        prune(shrunk.store, "study", is_dry_run=False)
        shrunk.store.add_groups([[rid] for rid in shrunk.rids])
        shrunk.store.add_study(shrunk.study)

        with Claimer(shrunk.store, runner="two", versions={}).claim_next() as claim:
            assert claim.n == 2

    def test_wanted_by_another_study(self, shrunk):
        """A run that a current plan of any other study names keeps its result, group and work."""
        replan(shrunk, shrunk.runs[1:2], "other")

        done = prune(shrunk.store, "study", is_dry_run=False)

        assert done.results == (shrunk.rids[2],)
        assert shrunk.store.results() == set(shrunk.rids[:2])
        assert shrunk.store.layout.work(shrunk.gids[1], 1).is_dir()

    def test_dropped_by_another_study(self, shrunk):
        """Runs that the study never named are left, though nobody wants them."""
        replan(shrunk, shrunk.runs[:2], "other")
        replan(shrunk, shrunk.runs[:1], "other")
        shrunk.store.add_study(shrunk.study)

        assert prune(shrunk.store, "other", is_dry_run=False) == Pruned(0, (), ())

    def test_mixed_group(self, plan, claimer, finish):
        """A group with a run that is wanted stays, with its work; the results of the others go."""
        planned = plan(members=2)
        finish(claimer(planned).claim_next())
        replan(planned, planned.runs[:1])

        done = prune(planned.store, "study", is_dry_run=False)

        assert (done.results, done.groups) == ((planned.rids[1],), ())
        assert planned.store.group(planned.gids[0]) == tuple(sorted(planned.rids))

    def test_planned_meanwhile(self, shrunk, monkeypatch):
        """What a plan wants by the time of its removal stays."""

        def plan_and_remove(path, real=prune.__globals__["discard"]):
            if shrunk.store.plan_number("other") == 0:
                replan(shrunk, shrunk.runs, "other")
            return real(path)

        monkeypatch.setattr("contilab.store.prune.discard", plan_and_remove)
        prune(shrunk.store, "study", is_dry_run=False)

        assert shrunk.store.results() == set(shrunk.rids)

    def test_set_aside(self, shrunk):
        """What was moved aside of a dropped run, and its records, go with it; those of others stay."""
        layout = shrunk.store.layout
        for rid in shrunk.rids[:2]:
            layout.aside(rid, "0" * 8).mkdir()
            layout.mismatch(rid, "0" * 8).write_text(json.dumps({"rid": rid, "found": {}}))
        prune(shrunk.store, "study", is_dry_run=False)

        assert [path.name[:64] for path in layout.damaged.iterdir()] == [shrunk.rids[0]]
        assert [record["rid"] for record in shrunk.store.mismatches()] == [shrunk.rids[0]]

    def test_unknown_study(self, plan):
        """A study that is not there is refused."""
        with pytest.raises(UsageError, match="no study"):
            prune(plan().store, "none", is_dry_run=True)


class TestUsage:
    """People see what a study takes."""

    def test_study(self, shrunk):
        """The results and the work of its runs count, those of others do not."""
        layout = shrunk.store.layout
        expected = tree_bytes(layout.result(shrunk.rids[0])) + tree_bytes(layout.work(shrunk.gids[0], 1))

        assert study_bytes(shrunk.store, shrunk.store.study("study")) == expected > 0

    def test_unplanned(self, shrunk):
        """Results that no current plan names are told apart."""
        assert shrunk.store.unplanned() == set(shrunk.rids[1:])

    def test_foreign_names(self, shrunk):
        """What is no address among the results is named, and nobody counts it."""
        (shrunk.store.layout.results / "lost+found").mkdir()
        (shrunk.store.layout.results / shrunk.rids[0][:12]).write_text("?")

        assert [path.name for path in shrunk.store.foreign_results()] == [shrunk.rids[0][:12], "lost+found"]
        assert shrunk.store.results() == set(shrunk.rids)
