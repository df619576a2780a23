"""A run that is stopped and resumed is the run that never was, bit by bit (CPU, one thread)."""

import dataclasses
import hashlib
import itertools
import json
import random

import numpy as np
import pytest
import torch

from contilab import catalog
from contilab.engine import stage as stage_module
from contilab.engine import train as subject
from contilab.engine.checkpoint import STATE
from contilab.engine.draws import Draws
from contilab.engine.watch import silent
from contilab.errors import CheckpointMismatch, Stopped
from contilab.spec.sections import Benchmark, Execution, Memory, Plugin, Train

STEPS = {"joint": 16}  # of a run of `make`; of all others 18, in three tasks of 6
MEASURED = ("seconds_group", "seconds_recording", "steps_per_second", "peak_rss_bytes")  # never twice the same

every_method = pytest.mark.parametrize("method", catalog.STRATEGIES)
every_optimiser = pytest.mark.parametrize("optim", catalog.OPTIMISERS)
every_way = pytest.mark.parametrize("way", ["loop", "vmap"])
every_scenario = pytest.mark.parametrize("scenario", ["task", "class", "domain"])


@pytest.fixture
def looks(monkeypatch):
    """Look at the watch after every single step."""
    monkeypatch.setattr(stage_module, "CHUNK_SECONDS", 0.0)


@pytest.fixture
def drawn(monkeypatch):
    """Return a list that gets, of every step that is trained, task, number, and digest of all that chance decides in it."""
    seen = []
    chunk = Draws.chunk

    def noting(self, stage, piece):
        draws = chunk(self, stage, piece)
        leaves = [draws.current, *(leaf for replay in draws.replay.values() for leaf in replay), *draws.keep]
        for step in range(piece.count):
            data = b"".join(np.ascontiguousarray(leaf[step]).tobytes() for leaf in leaves)
            seen.append((stage.task, piece.first + step, hashlib.sha256(data).hexdigest()))
        return draws

    monkeypatch.setattr(Draws, "chunk", noting)
    return seen


@pytest.fixture
def exams(monkeypatch):
    """Return a list that gets, of every exam of a member, the latest task that was learned."""
    seen = []
    evaluate = subject.evaluate

    def noting(*arguments, last):
        seen.append(last)
        return evaluate(*arguments, last=last)

    monkeypatch.setattr(subject, "evaluate", noting)
    return seen


class Shelf:
    """Keeps all snapshots of a group: at ends of tasks, before the steps *due*, and before *end*, where it stops the group."""

    def __init__(self, end=None, due=()):
        self.kept, self.end, self.due, self.now = [], end, due, 0

    @property
    def watch(self):
        """The watch that hands snapshots to this shelf."""
        return silent()._replace(
            progress=self.note,
            stop=lambda: self.now == self.end,
            save=self.kept.append,
            is_due=lambda: self.now in self.due,
            saves_on_stop=lambda: True,
        )

    @property
    def steps(self):
        """The steps that snapshots were made of."""
        return [snapshot.step for snapshot in self.kept]

    def files(self, step):
        """Return the files of the snapshot of *step*."""
        return dict(self.kept[self.steps.index(step)].files)

    def note(self, progress):
        """Note the step."""
        self.now = progress.step


def shelf_of(make, runs, way="loop", *, due=(), **options):
    """Train *runs* in one go and return the snapshots that were made on the way."""
    shelf = Shelf(due=due)
    make.outcomes(runs, way, watch=shelf.watch, **options)
    return shelf


def in_pieces(make, runs, way, ends, **options):
    """Train *runs* from snapshot to snapshot: everything but its bytes is dropped before each step of *ends*."""
    files = None
    for end in ends:
        shelf = Shelf(end)
        with pytest.raises(Stopped):
            make.outcomes(runs, way, watch=shelf.watch, resume=files, **options)
        files = dict(shelf.kept[-1].files)
    return make.outcomes(runs, way, resume=files, **options)


def facts(outcomes):
    """Return all numbers of outcomes, in all their bits, but those that are measured."""
    return [
        {
            "rid": outcome.rid,
            "record": {**dataclasses.asdict(outcome.record), "cost": None},
            "cost": {key: value for key, value in dataclasses.asdict(outcome.record.cost).items() if key not in MEASURED},
            **{
                kind: {name: (value.dtype.str, value.shape, value.tobytes()) for name, value in getattr(outcome, kind).items()}
                for kind in ("tensors", "parameters")
            },
        }
        for outcome in outcomes
    ]


@every_way
@every_scenario
@every_optimiser
@every_method
def test_stopped_at_five_random_steps(make, looks, drawn, exams, method, optim, scenario, way):  # noqa: PLR0917 - a grid
    """Every strategy, optimiser and scenario of the catalog ends like in one go: weights, answers, record, draws and exams."""
    runs = [make.run(seed, method, scenario=scenario, optim=(optim, {"lr": 0.02, "clip_norm": 1.0})) for seed in (3, 8)]
    ends = random.Random(f"{method} {optim} {scenario} {way}").sample(range(1, STEPS.get(method, 18)), 5)
    whole = facts(make.outcomes(runs, way))
    once = [drawn.copy(), exams.copy()]
    drawn.clear()
    exams.clear()
    pieces = facts(in_pieces(make, runs, way, sorted(ends)))

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
        in_pieces(make, [make.run(1, method)], "loop", range(2, STEPS.get(method, 18), 2))

        assert drawn == once
        assert len({digest for *_, digest in drawn}) == len(drawn)

    @every_way
    def test_killed_after_a_snapshot_trains_the_lost_steps_again(self, make, looks, way):
        """From a snapshot of step 4 on, long before the kill, a run ends at the same bits; so it does from each other one."""
        runs = [make.run(seed, "er") for seed in (1, 2)]
        shelf = shelf_of(make, runs, way, due=(1, 4, 9, 17))
        whole = facts(make.outcomes(runs, way))

        assert shelf.steps == [1, 4, 6, 9, 12, 17, 18]
        assert all(facts(make.outcomes(runs, way, resume=kept.files)) == whole for kept in shelf.kept)

    def test_a_memory_that_is_half_full_goes_on_filling(self, make, looks):
        """With 60 slots and 40 samples offered, entries and their count are those of one go."""
        runs = [make.run(4, "er", memory=Memory(total=60, batch=8))]

        assert facts(in_pieces(make, runs, "loop", [2, 7])) == facts(make.outcomes(runs))

    def test_after_the_last_step_nothing_is_left_to_do(self, make, drawn, exams):
        """From the snapshot of the last step an outcome is made without a step or an exam."""
        runs = [make.run(5, "ewc")]
        shelf = shelf_of(make, runs)
        whole = facts(make.outcomes(runs))
        drawn.clear()
        exams.clear()

        assert facts(make.outcomes(runs, resume=shelf.files(18))) == whole
        assert drawn == exams == []

    def test_mid_task_snapshots_of_a_longer_run_hold_its_losses(self, make, looks):
        """With train.steps, mean losses over 100 steps stay the same where a stop divides the hundred."""
        runs = [make.run(0, train=Train(steps=120, batch=4))]

        assert facts(in_pieces(make, runs, "loop", [60, 130])) == facts(make.outcomes(runs))

    @every_way
    def test_a_diverged_member_stays_diverged(self, make, looks, way):
        """Losses that are not finite survive in and after the stage in which they appear; its mate ends as in one go."""
        runs = [make.run(seed, optim=("sgd", {"lr": lr})) for seed, lr in ((0, 0.05), (1, 1e30))]
        whole = make.outcomes(runs, way)

        assert [one.record.state for one in whole] == ["finished", "diverged"]
        assert facts(in_pieces(make, runs, way, [4, 5, 6, 11])) == facts(whole)

    def test_a_group_of_diverged_members_is_over(self, make, drawn):
        """From a snapshot in which all have diverged, no step is trained."""
        runs = [make.run(seed, optim=("sgd", {"lr": 1e30})) for seed in range(2)]
        shelf = shelf_of(make, runs)
        whole = facts(make.outcomes(runs))
        drawn.clear()

        assert facts(make.outcomes(runs, resume=shelf.files(6))) == whole
        assert drawn == []


class TestSnapshots:
    """When snapshots are made."""

    def test_one_at_each_end_of_a_task(self, make):
        """A watch that only keeps them gets three, of the steps 6, 12 and 18."""
        assert shelf_of(make, [make.run()]).steps == [6, 12, 18]

    def test_none_twice_and_none_of_nothing(self, make, looks):
        """One that is always due is made once per step; before the first step there is none, nor of the step resumed at."""
        shelf = shelf_of(make, [make.run()], due=range(19))
        again = shelf_of(make, [make.run()], due=range(19), resume=shelf.files(9))

        assert shelf.steps == list(range(1, 19))
        assert again.steps == list(range(10, 19))

    def test_none_at_ends_of_tasks_if_the_watch_says_so(self, make, looks):
        """A watch may skip ends of tasks; what is due later holds them all the same."""
        shelf = Shelf(due=(8,))
        make.outcomes([make.run()], watch=shelf.watch._replace(is_due_at_task_end=lambda: False))

        assert shelf.steps == [8]
        assert facts(make.outcomes([make.run()], resume=shelf.files(8))) == facts(make.outcomes([make.run()]))

    def test_none_when_stopped_unless_asked_for(self, make, looks):
        """A stop alone keeps nothing."""
        shelf = Shelf(end=3)
        with pytest.raises(Stopped):
            make.outcomes([make.run()], watch=shelf.watch._replace(saves_on_stop=lambda: False))

        assert shelf.steps == []

    def test_a_snapshot_stands_still(self, make, looks):
        """Training goes on in place, but bytes of an earlier step do not move: two makings of it are one."""
        names = [run.rid + ".safetensors" for run in (make.run(0, optim=("adam", {"lr": 0.01})),)]
        run = make.run(0, optim=("adam", {"lr": 0.01}))
        early, late = (shelf_of(make, [run], "vmap", due=due).files(3) for due in ((3,), (1, 2, 3, 4)))

        assert [early[name] for name in names] == [late[name] for name in names]

    def test_what_save_raises_ends_training(self, make):
        """A full disk is for the caller to bear; training hides nothing."""

        def full(_snapshot):
            raise OSError(28, "no space left")

        with pytest.raises(OSError, match="no space"):
            make.outcomes([make.run()], watch=silent()._replace(save=full))


class TestFewerRuns:
    """A snapshot of more members than are still wanted."""

    @pytest.mark.parametrize("step", [4, 6, 15])
    def test_those_asked_for_end_as_in_the_whole_group(self, make, looks, step):
        """Members 2 and 0 of three, in that order, end at the bits they have together with all three."""
        runs = [make.run(seed, "ewc") for seed in (5, 6, 7)]
        shelf = shelf_of(make, runs, due=(step,))
        found = make.outcomes([runs[2], runs[0]], resume=shelf.files(step))
        whole = make.outcomes(runs)

        assert [{**one, "cost": None} for one in facts(found)] == [{**one, "cost": None} for one in facts([whole[2], whole[0]])]

    def test_files_of_the_others_need_not_be_there(self, make):
        """The state and the file of one run are enough to resume it."""
        runs = [make.run(seed) for seed in (5, 6)]
        files = shelf_of(make, runs).files(12)
        own = {name: files[name] for name in (STATE, f"{runs[1].rid}.safetensors")}
        [found] = make.outcomes(runs[1:], resume=own)

        assert found.parameters.keys() == make.outcomes(runs)[1].parameters.keys()
        assert all(np.array_equal(value, make.outcomes(runs)[1].parameters[name]) for name, value in found.parameters.items())

    def test_another_execution_goes_on_by_the_equality_rule(self, make, looks):
        """A snapshot of the loop in float64 is finished under vmap within 1e-9."""
        runs = [make.run(seed, "er") for seed in (5, 6, 7)]
        files = shelf_of(make, runs, due=(8,), dtype=torch.float64).files(8)
        mapped, looped = (make.outcomes(runs, way, resume=files, dtype=torch.float64) for way in ("vmap", "loop"))
        gaps = [
            np.abs(value - b.parameters[name]).max()
            for a, b in zip(mapped, looped, strict=True)
            for name, value in a.parameters.items()
        ]

        assert max(gaps) < 1e-9


class TestCost:
    """Costs of all attempts that count."""

    def test_clocks_go_on(self, make):
        """Seconds begin at those of the snapshot, and each stage has the speed it was trained with, stops or not."""
        runs = [make.run()]
        files = shelf_of(make, runs).files(12)
        state = json.loads(files[STATE])["state"]
        cost = make.outcomes(runs, resume=files)[0].record.cost

        assert cost.seconds_group > state["seconds"] > state["seconds_recording"] > 0
        assert cost.seconds_recording > state["seconds_recording"]
        assert cost.steps_per_second[:2] == state["steps_per_second"]
        assert len(cost.steps_per_second) == 3

    def test_seconds_of_a_stage_count_both_parts(self, make, looks, monkeypatch):
        """Three steps of one second each, a stop, and three of two seconds: the stage was trained at 6 / 9 steps per second."""
        runs = [make.run()]
        tick(monkeypatch, seconds=1)
        files = shelf_of(make, runs, due=(3,)).files(3)
        tick(monkeypatch, seconds=2)

        assert make.outcomes(runs, resume=files)[0].record.cost.steps_per_second[0] == pytest.approx(6 / 9)

    def test_progress_tells_the_speed_of_this_attempt(self, make, looks, monkeypatch):
        """Slow before the stop and fast after it, a run of batches of 16 reports 16 samples per second of now."""
        runs = [make.run()]
        tick(monkeypatch, seconds=100)
        files = shelf_of(make, runs, due=(3,)).files(3)
        tick(monkeypatch, seconds=1)
        seen = []
        make.outcomes(runs, resume=files, watch=silent()._replace(progress=seen.append))

        assert (seen[0].step, seen[0].samples_per_second) == (4, 16)

    def test_the_watch_is_looked_at_as_often_after_a_stop(self, make, monkeypatch):
        """Steps of one second are taken one by one, however many were trained before the stop."""
        runs = [make.run(train=Train(steps=60, batch=4))]
        tick(monkeypatch, seconds=1)
        files = shelf_of(make, runs, due=(40,)).files(40)
        seen = []
        make.outcomes(runs, resume=files, watch=silent()._replace(progress=seen.append))

        assert [progress.step for progress in seen[:20]] == list(range(41, 61))


def tick(monkeypatch, *, seconds):
    """Let the clock of training go on by *seconds* each time it is read."""
    monkeypatch.setattr(stage_module.time, "perf_counter", itertools.count(step=seconds).__next__)


class TestTrain:
    """The public function."""

    @pytest.mark.parametrize("way", ["loop", "vmap"])
    def test_resumes_runs_of_the_catalog(self, make, looks, way):
        """Stopped and resumed on synthetic clouds it ends at the bits of one go, and says where it went on."""
        runs = catalog_runs(make)
        execution = Execution(execution=way, device="cpu")
        shelf, events = Shelf(end=5), []
        with pytest.raises(Stopped):
            subject.train(runs, execution, shelf.watch)
        watch = silent()._replace(log=lambda event, **details: events.append((event, details)))
        found = subject.train(runs, execution, watch, resume=shelf.kept[-1].files)

        assert facts(found) == facts(subject.train(runs, execution, silent()))
        assert ("resumed", {"task": 0, "step": 5}) in events

    def test_foreign_files_are_refused(self, make):
        """A snapshot of another seed is none of this run."""
        run, other = catalog_runs(make)
        shelf = Shelf()
        subject.train([other], Execution(device="cpu"), shelf.watch)

        with pytest.raises(CheckpointMismatch, match="other runs"):
            subject.train([run], Execution(device="cpu"), silent(), resume=shelf.kept[0].files)


def catalog_runs(make):
    """Return two seeds on a benchmark of the catalog, three tasks of 6 steps."""
    benchmark = Benchmark(name="synthetic", scenario="class", tasks=3, train_per_task=40, test_per_task=20)
    model = Plugin(name="mlp", settings={"hidden": [8]})
    return [dataclasses.replace(make.run(seed), benchmark=benchmark, model=model) for seed in range(2)]
