"""A run that is stopped and resumed is the run that never was, bit by bit (CPU, one thread)."""

import dataclasses
import random

import pytest

from contilab import catalog
from contilab.engine import train as subject
from contilab.engine.watch import silent
from contilab.errors import CheckpointMismatch, Stopped
from contilab.spec.sections import Benchmark, Execution, Memory, Plugin, Train

STEPS = {"joint": 16, "cumulative": 32, "icarl": 24}  # of a run of `make`; of all others 18, in three tasks of 6
FIRST = {"joint": 16}  # of its first stage; of all others 6

SCENARIOS, OPTIMISERS = ("task", "class", "domain"), tuple(catalog.OPTIMISERS)
# Each at least once with every method, not all combinations, which find the same faults and take twice the time; so it is
# with the ways to train them, of which the other one is a slow test.
PAIRS = [(OPTIMISERS[n % len(OPTIMISERS)], SCENARIOS[n % 3]) for n in range(max(3, len(OPTIMISERS)))]
CASES = [
    pytest.param(*pair, way, marks=() if way == ("loop" if n else "vmap") else pytest.mark.slow)
    for n, pair in enumerate(PAIRS)
    for way in ("loop", "vmap")
]

every_method = pytest.mark.parametrize("method", catalog.STRATEGIES)
every_way = pytest.mark.parametrize("way", ["loop", "vmap"])


@pytest.mark.parametrize(("optim", "scenario", "way"), CASES)
@every_method
def test_stopped_at_five_random_steps(make, looks, drawn, exams, method, optim, scenario, way):  # noqa: PLR0917 - a grid
    """Every strategy, optimiser and scenario of the catalog ends like in one go: weights, answers, record, draws and exams."""
    clip = {"clip_norm": 1.0} if optim == "sgd" else {}  # without, Adam takes all members in one call
    runs = [make.run(seed, method, scenario=scenario, optim=(optim, {"lr": 0.02, **clip})) for seed in (3, 8)]
    ends = random.Random(f"{method} {optim} {scenario} {way}").sample(range(1, STEPS.get(method, 18)), 5)
    whole = make.facts(make.outcomes(runs, way))
    once = [drawn.copy(), exams.copy()]
    drawn.clear()
    exams.clear()
    pieces = make.facts(make.in_pieces(runs, way, sorted(ends)))

    assert pieces == whole
    assert [drawn, exams] == once


class TestStop:
    """Where a run is stopped, and what is kept of it."""

    @every_method
    def test_at_each_end_of_an_epoch_training_gets_the_draws_of_one_go(self, make, looks, drawn, method):
        """Each draw of one go is trained once and in order, whatever the stops: the order of samples does not begin again."""
        make.outcomes([make.run(1, method)])
        once = drawn.copy()
        drawn.clear()
        make.in_pieces([make.run(1, method)], "loop", range(2, STEPS.get(method, 18), 2))

        assert drawn == once
        assert len({digest for *_, digest in drawn}) == len(drawn)

    @every_way
    def test_killed_after_a_snapshot_trains_the_lost_steps_again(self, make, looks, way):
        """From a snapshot of step 4 on, long before the kill, a run ends at the same bits; so it does from each other one."""
        runs = [make.run(seed, "er") for seed in (1, 2)]
        shelf = make.shelf_of(runs, way, due=(1, 4, 9, 17))
        whole = make.facts(make.outcomes(runs, way))

        assert shelf.steps == [1, 4, 6, 9, 12, 17, 18]
        assert all(make.facts(make.outcomes(runs, way, resume=kept.files)) == whole for kept in shelf.kept)

    def test_a_memory_that_is_half_full_goes_on_filling(self, make, looks):
        """With 60 slots and 40 samples offered, entries and their count are those of one go."""
        runs = [make.run(4, "er", memory=Memory(total=60, batch=8))]

        assert make.facts(make.in_pieces(runs, "loop", [2, 7])) == make.facts(make.outcomes(runs))

    @pytest.mark.slow
    @every_way
    @every_method
    @pytest.mark.parametrize("count", [3, 6])
    def test_stopped_in_an_exam_takes_it_again(self, make, exams, method, way, count):
        """Whether the first or the last of the four exams after a stage is broken off, it is kept and closed later on."""
        runs = [make.run(seed, method) for seed in (3, 8)]
        shelf = make.Shelf()
        with pytest.raises(Stopped):
            make.outcomes(runs, way, watch=shelf.watch._replace(stop=lambda: len(exams) == count))

        assert shelf.steps == [FIRST.get(method, 6)]
        assert make.facts(make.outcomes(runs, way, resume=shelf.kept[0].files)) == make.facts(make.outcomes(runs, way))

    def test_stopped_in_the_exam_before_training_keeps_nothing(self, make, exams):
        """Before the first step there is nothing to keep, but the stop is heeded."""
        shelf = make.Shelf()
        with pytest.raises(Stopped):
            make.outcomes([make.run()], watch=shelf.watch._replace(stop=lambda: len(exams) == 1))

        assert shelf.steps == []

    def test_stopped_at_the_end_of_a_task_keeps_its_last_step_once(self, make, looks):
        """Stopped before task 0 of 6 steps is closed, resumed and killed again, snapshots are of the steps 6, 12 and 18."""
        shelf = make.Shelf(end=6)
        with pytest.raises(Stopped):
            make.outcomes([make.run(2, "ewc")], watch=shelf.watch)

        assert shelf.steps + make.shelf_of([make.run(2, "ewc")], resume=shelf.files(6)).steps == [6, 12, 18]

    def test_after_the_last_step_nothing_is_left_to_do(self, make, drawn, exams):
        """From the snapshot of the last step an outcome is made without a step or an exam."""
        runs = [make.run(5, "ewc")]
        shelf = make.shelf_of(runs)
        whole = make.facts(make.outcomes(runs))
        drawn.clear()
        exams.clear()

        assert make.facts(make.outcomes(runs, resume=shelf.files(18))) == whole
        assert drawn == exams == []

    def test_mid_task_snapshots_of_a_longer_run_hold_its_losses(self, make, looks):
        """With train.steps, mean losses over 100 steps stay the same where a stop divides the hundred."""
        runs = [make.run(0, train=Train(steps=120, batch=4))]

        assert make.facts(make.in_pieces(runs, "loop", [60, 130])) == make.facts(make.outcomes(runs))

    @every_way
    def test_a_diverged_member_stays_diverged(self, make, looks, way):
        """Losses that are not finite survive in and after the stage in which they appear; its mate ends as in one go."""
        runs = [make.run(seed, optim=("sgd", {"lr": lr})) for seed, lr in ((0, 0.05), (1, 1e30))]
        whole = make.outcomes(runs, way)

        assert [one.record.state for one in whole] == ["finished", "diverged"]
        assert make.facts(make.in_pieces(runs, way, [4, 5, 6, 11])) == make.facts(whole)

    def test_a_group_of_diverged_members_is_over(self, make, drawn):
        """From a snapshot in which all have diverged, no step is trained."""
        runs = [make.run(seed, optim=("sgd", {"lr": 1e30})) for seed in range(2)]
        shelf = make.shelf_of(runs)
        whole = make.facts(make.outcomes(runs))
        drawn.clear()

        assert make.facts(make.outcomes(runs, resume=shelf.files(6))) == whole
        assert drawn == []


class TestTrain:
    """The public function."""

    @pytest.mark.parametrize("way", ["loop", "vmap"])
    def test_resumes_runs_of_the_catalog(self, make, looks, way):
        """Stopped and resumed on synthetic clouds it ends at the bits of one go, and says where it went on."""
        runs = catalog_runs(make)
        execution = Execution(execution=way, device="cpu")
        shelf, events = make.Shelf(end=5), []
        with pytest.raises(Stopped):
            subject.train(runs, execution, shelf.watch)
        watch = silent()._replace(log=lambda event, **details: events.append((event, details)))
        found = subject.train(runs, execution, watch, resume=shelf.kept[-1].files)

        assert make.facts(found) == make.facts(subject.train(runs, execution, silent()))
        assert ("resumed", {"task": 0, "step": 5}) in events

    def test_foreign_files_are_refused(self, make):
        """A snapshot of another seed is none of this run."""
        run, other = catalog_runs(make)
        shelf = make.Shelf()
        subject.train([other], Execution(device="cpu"), shelf.watch)

        with pytest.raises(CheckpointMismatch, match="other runs"):
            subject.train([run], Execution(device="cpu"), silent(), resume=shelf.kept[0].files)


def catalog_runs(make):
    """Return two seeds on a benchmark of the catalog, three tasks of 6 steps."""
    benchmark = Benchmark(name="synthetic", scenario="class", tasks=3, train_per_task=40, test_per_task=20)
    model = Plugin(name="mlp", settings={"hidden": [8]})
    data = catalog.entry("benchmark", "synthetic").make(benchmark).data
    return [dataclasses.replace(make.run(seed), benchmark=benchmark, data=data, model=model) for seed in range(2)]
