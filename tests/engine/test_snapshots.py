"""When snapshots are made, who may go on from them, and which costs go on."""

import itertools
import json

import numpy as np
import pytest
import torch

from contilab.engine import stage as stage_module
from contilab.engine.checkpoint import STATE
from contilab.engine.watch import silent
from contilab.errors import Stopped
from contilab.spec.sections import Train


class TestSnapshots:
    """When snapshots are made."""

    def test_one_at_each_end_of_a_task(self, make):
        """A watch that only keeps them gets three, of the steps 6, 12 and 18."""
        assert make.shelf_of([make.run()]).steps == [6, 12, 18]

    def test_none_twice_and_none_of_nothing(self, make, looks):
        """One that is always due is made once per step; before the first step there is none, nor of the step resumed at."""
        shelf = make.shelf_of([make.run()], due=range(19))
        again = make.shelf_of([make.run()], due=range(19), resume=shelf.files(9))

        assert shelf.steps == list(range(1, 19))
        assert again.steps == list(range(10, 19))

    def test_none_at_ends_of_tasks_if_the_watch_says_so(self, make, looks):
        """A watch may skip ends of tasks; what is due later holds them all the same."""
        shelf = make.Shelf(due=(8,))
        make.outcomes([make.run()], watch=shelf.watch._replace(is_due_at_task_end=lambda: False))

        assert shelf.steps == [8]
        assert make.facts(make.outcomes([make.run()], resume=shelf.files(8))) == make.facts(make.outcomes([make.run()]))

    def test_none_when_stopped_unless_asked_for(self, make, looks):
        """A stop alone keeps nothing."""
        shelf = make.Shelf(end=3)
        with pytest.raises(Stopped):
            make.outcomes([make.run()], watch=shelf.watch._replace(saves_on_stop=lambda: False))

        assert shelf.steps == []

    def test_a_snapshot_stands_still(self, make, looks):
        """Training goes on in place, but bytes of an earlier step do not move: two makings of it are one."""
        names = [run.rid + ".safetensors" for run in (make.run(0, optim=("adam", {"lr": 0.01})),)]
        run = make.run(0, optim=("adam", {"lr": 0.01}))
        early, late = (make.shelf_of([run], "vmap", due=due).files(3) for due in ((3,), (1, 2, 3, 4)))

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
        shelf = make.shelf_of(runs, due=(step,))
        found = make.outcomes([runs[2], runs[0]], resume=shelf.files(step))
        whole = make.outcomes(runs)
        pairs = zip(make.facts(found), make.facts([whole[2], whole[0]]), strict=True)

        assert all({**one, "cost": None} == {**other, "cost": None} for one, other in pairs)  # costs count the members

    def test_files_of_the_others_need_not_be_there(self, make):
        """The state and the file of one run are enough to resume it."""
        runs = [make.run(seed) for seed in (5, 6)]
        files = make.shelf_of(runs).files(12)
        own = {name: files[name] for name in (STATE, f"{runs[1].rid}.safetensors")}
        [found] = make.outcomes(runs[1:], resume=own)

        assert found.parameters.keys() == make.outcomes(runs)[1].parameters.keys()
        assert all(np.array_equal(value, make.outcomes(runs)[1].parameters[name]) for name, value in found.parameters.items())

    def test_another_execution_goes_on_by_the_equality_rule(self, make, looks):
        """A snapshot of the loop in float64 is finished under vmap within 1e-9."""
        runs = [make.run(seed, "er") for seed in (5, 6, 7)]
        files = make.shelf_of(runs, due=(8,), dtype=torch.float64).files(8)
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
        files = make.shelf_of(runs).files(12)
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
        files = make.shelf_of(runs, due=(3,)).files(3)
        tick(monkeypatch, seconds=2)

        assert make.outcomes(runs, resume=files)[0].record.cost.steps_per_second[0] == pytest.approx(6 / 9)

    def test_progress_tells_the_speed_of_this_attempt(self, make, looks, monkeypatch):
        """Slow before the stop and fast after it, a run of batches of 16 reports 16 samples per second of now."""
        runs = [make.run()]
        tick(monkeypatch, seconds=100)
        files = make.shelf_of(runs, due=(3,)).files(3)
        tick(monkeypatch, seconds=1)
        seen = []
        make.outcomes(runs, resume=files, watch=silent()._replace(progress=seen.append))

        assert (seen[0].step, seen[0].samples_per_second) == (4, 16)

    def test_the_watch_is_looked_at_as_often_after_a_stop(self, make, monkeypatch):
        """Steps of one second are taken one by one, however many were trained before the stop."""
        runs = [make.run(train=Train(steps=60, batch=4))]
        tick(monkeypatch, seconds=1)
        files = make.shelf_of(runs, due=(40,)).files(40)
        seen = []
        make.outcomes(runs, resume=files, watch=silent()._replace(progress=seen.append))

        assert [progress.step for progress in seen[:20]] == list(range(41, 61))


def tick(monkeypatch, *, seconds):
    """Let the clock of training go on by *seconds* each time it is read."""
    monkeypatch.setattr(stage_module.time, "perf_counter", itertools.count(step=seconds).__next__)
