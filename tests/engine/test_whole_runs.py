"""Whole runs of methods with stages of their own: resumed, measured, chosen for, and of awkward sizes."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from contilab import catalog
from contilab.engine.train import train
from contilab.engine.watch import silent
from contilab.metrics.compute import compute
from contilab.metrics.contract import Absent
from contilab.spec.sections import Benchmark, Execution, Memory, Plugin

KINDS = ["cumulative", "gdumb", "icarl"]


class Case(NamedTuple):
    """A method, its settings, and the steps that it is stopped before."""

    method: str
    settings: dict
    ends: list


@pytest.mark.parametrize("way", ["loop", "vmap"])
@pytest.mark.parametrize(
    "case",
    [
        Case("cumulative", {"restart": True}, [1, 6, 9, 31]),
        Case("gdumb", {"passes": 4}, [1, 3, 8, 13, 23]),
        Case("icarl", {}, [5, 6, 11, 20]),
        Case("er", {"head": "ncm"}, [3, 12]),
    ],
)
class TestResumed:
    """Runs that are stopped inside such stages, at their ends, and go on."""

    def test_ends_at_the_bits_of_one_go(self, make, looks, case, way):
        """Members that begin anew do so once, memory is filled once, rates and teachers are those of the stage."""
        runs = [make.run(seed, case.method, settings=case.settings) for seed in (4, 9)]

        assert make.facts(make.in_pieces(runs, way, case.ends)) == make.facts(make.outcomes(runs, way))

    def test_snapshots_that_are_always_due_change_nothing(self, make, looks, case, way):
        """Looked at before every step, also before the first of a stage, each snapshot goes on to the same end."""
        runs = [make.run(seed, case.method, settings=case.settings) for seed in (4, 9)]
        shelf = make.Shelf(due=range(40))
        whole = make.facts(make.outcomes(runs, way, watch=shelf.watch._replace(is_due_at_task_end=lambda: False)))

        assert all(make.facts(make.outcomes(runs, way, resume=shelf.files(end))) == whole for end in case.ends)


class TestMetrics:
    """What metrics make of such records."""

    @pytest.mark.parametrize("scenario", ["task", "class"])
    def test_calibration_of_nearest_means_is_absent(self, make, scenario):
        """The head gives no probabilities; transfer to tasks without an entry has no value either, and no metric fails."""
        [outcome] = make.outcomes([make.run(method="icarl", scenario=scenario)])
        values = compute(outcome.record, outcome.tensors)

        assert values["ece"] == Absent("the head gives no probabilities")
        assert isinstance(values["fwt"], Absent)
        assert 0 <= values["acc"] <= 1

    def test_intransigence_reads_the_cumulative_run(self, make):
        """It is the mean difference of the two diagonals; that of cumulative training to itself is 0."""
        cumulative, gdumb = (make.outcomes([make.run(method=method)])[0].record for method in ("cumulative", "gdumb"))
        gaps = [cumulative.accuracy[task][task] - gdumb.accuracy[task][task] for task in range(3)]

        assert compute(gdumb, cumulative=cumulative)["intransigence"] == pytest.approx(np.mean(gaps))
        assert compute(cumulative, cumulative=cumulative)["intransigence"] == 0


class TestChoice:
    """How members are trained together, as `auto` chooses it."""

    @pytest.mark.parametrize("method", KINDS)
    def test_auto_trains_runs_of_the_catalog(self, make, method):
        """On synthetic clouds two seeds end with three tasks each, with a memory and with none."""
        benchmark = Benchmark(name="synthetic", scenario="class", tasks=3, train_per_task=40, test_per_task=20)
        model = Plugin(name="mlp", settings={"hidden": [8]})
        data = catalog.entry("benchmark", "synthetic").make(benchmark).data
        runs = [replace(make.run(seed, method), benchmark=benchmark, data=data, model=model) for seed in range(2)]
        empty = [replace(run, memory=run.memory and replace(run.memory, total=0)) for run in runs]
        found = [outcome for group in (runs, empty) for outcome in train(group, Execution(device="cpu"), silent())]

        assert [len(outcome.record.accuracy) for outcome in found] == [3] * 4


class TestSizes:
    """Streams and memories of awkward sizes."""

    @pytest.mark.parametrize(
        ("sizes", "total"),
        [
            ((30,), 7),
            ((30, 9, 17), 0),
            ((30, 9, 17), 3),
            ((33, 17), 20),
            ((33, 17), 500),
            ((1, 1, 2), 1),
            ((1, 1, 2), 500),
            ((8,) * 20, 45),
        ],
    )
    @pytest.mark.parametrize("method", KINDS)
    def test_ends_with_a_row_per_task_in_the_steps_planned(self, make, method, sizes, total):
        """One, three and twenty tasks, unequal ones, a last batch of one sample; memory of none, too few or all samples."""
        uses_memory = method != "cumulative"
        policy = {"gdumb": {"policy": "class_balanced"}, "icarl": {"policy": "herding", "insert": "task_end"}}
        run = make.run(method=method, memory=Memory(total=total, **policy[method]) if uses_memory else None)
        stream = make.stream(sizes)
        [outcome] = make.outcomes([run], stream=stream)
        record = outcome.record

        assert record.state == "finished"
        assert [len(row) for row in record.accuracy] == [len(sizes)] * len(sizes)
        assert record.cost.train_steps == make.setup([run], stream).steps
        assert record.cost.buffer_bytes <= 8 * total

    @pytest.mark.parametrize("method", ["er", "derpp", "agem", "gem"])
    def test_steps_follow_the_current_task_only(self, make, method):
        """With a memory larger than all data, or of none, the steps of each task are those of naive training."""
        naive = [stage.schedule for stage in make.setup([make.run()]).stages]

        for total in (0, 500):
            memory = make.setup([make.run(method=method)]).shared.memory
            run = make.run(method=method, memory=Memory(total=total, policy=memory.policy, insert=memory.insert))
            assert [stage.schedule for stage in make.setup([run]).stages] == naive

    def test_gdumb_without_memory_stays_untrained(self, make):
        """With no entry there is no step: the initial model is measured after each task."""
        [outcome] = make.outcomes([make.run(method="gdumb", memory=Memory(total=0, policy="class_balanced"))])
        record = outcome.record

        assert record.cost.train_steps == record.cost.flops == 0
        assert record.train_loss == [[], [], []]
        assert record.accuracy_all_rows[0] == record.accuracy_all_rows[2]

    def test_icarl_without_memory_cannot_predict(self, make):
        """Fewer entries than classes are none of each: every class lacks one, and every answer is wrong."""
        memory = Memory(total=1, policy="herding", insert="task_end")
        [outcome] = make.outcomes([make.run(method="icarl", memory=memory)])

        assert outcome.record.notes["classes_without_entry"] == 6
        assert outcome.record.accuracy[2] == [0.0, 0.0, 0.0]
        assert (outcome.tensors["prediction"] == -1).all()
