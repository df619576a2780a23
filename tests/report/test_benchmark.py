"""How runs are arranged, and what is said of them before the numbers."""

import dataclasses
from statistics import stdev

import pytest

from contilab.errors import InputError
from contilab.metrics.contract import Absent
from contilab.records.record import Record
from contilab.report.benchmark import benchmarks
from contilab.report.figures.bars import bars
from contilab.report.figures.curves import curves
from contilab.report.figures.svg import styled
from contilab.report.notices import significance
from contilab.report.numbers import number
from contilab.report.runs import RunReport
from contilab.report.summary import summarise
from contilab.spec.sections import Execution
from contilab.spec.study import Cell


def runs_of(method, accs, sweep=None, scenario="class", record=None, **circumstances):
    """Return runs of one cell, one per value of `acc`."""
    cell = Cell(preset="p", benchmark="b", scenario=scenario, method=method, sweep=sweep or {}, execution=Execution(), runs={})
    facts = {"record": record, "circumstances": circumstances}
    values = ({"acc": acc, "forgetting": Absent("one task only")} for acc in accs)
    return [RunReport(cell, seed, f"{seed}", "finished", values=value, **facts) for seed, value in enumerate(values)]


def one_task(scenario):
    """Return the record of one task."""
    facts = {"tasks": 1, "head_rows": 2, "task_rows": [[0, 1]], "test_samples": [10], "stages": 1}
    return Record(scenario=scenario, accuracy=[[0.5]], baseline=[0.5], accuracy_all_rows=[[0.5]], **facts)


class TestArrangement:
    """Cells become variants of a benchmark."""

    def test_a_label_names_what_varies(self):
        """A key with one value in all cells says nothing and is left out; the others stand in their short form."""
        runs = [
            *runs_of("ewc", [0.1], {"optim.lr": 0.1, "method.strength": 1}),
            *runs_of("ewc", [0.2], {"optim.lr": 0.1, "method.strength": 10}),
        ]

        assert [variant.label for variant in benchmarks(runs)[0].variants] == ["ewc strength=1", "ewc strength=10"]

    def test_a_label_is_never_ambiguous(self):
        """Two keys that end alike are written out."""
        runs = [*runs_of("a", [0.1], {"optim.name": "sgd", "model.name": "x"}), *runs_of("a", [0.1], {"optim.name": "adam"})]

        assert benchmarks(runs)[0].variants[0].label == "a optim.name=sgd model.name=x"

    def test_scenarios_are_apart(self):
        """One preset under two scenarios is two benchmarks."""
        found = benchmarks([*runs_of("a", [0.9], scenario="task"), *runs_of("a", [0.2], scenario="class")])

        assert [benchmark.scenario for benchmark in found] == ["task", "class"]

    def test_a_result_of_another_scenario_is_refused(self):
        """A record that is not of the scenario of its cell cannot enter the table."""
        with pytest.raises(InputError, match="results of different scenarios cannot be compared"):
            benchmarks(runs_of("a", [0.9], record=one_task("task")))


class TestClaims:
    """What the number of seeds allows."""

    @pytest.mark.parametrize(
        ("seeds", "beginning", "p"), [(1, "No difference", "1."), (5, "No difference", "0.0625"), (6, "No test", "0.03125")]
    )
    def test_the_smallest_p_is_printed(self, seeds, beginning, p):
        """Below six seeds no difference can be significant at .05, and the reason stands with it."""
        text = significance(benchmarks(runs_of("a", [0.5] * seeds))[0])

        assert text.startswith(beginning)
        assert p in text

    def test_nothing_is_said_without_a_result(self):
        """Without any value there is nothing to claim."""
        assert significance(benchmarks(runs_of("a", [Absent("no")]))[0]) == ""

    @pytest.mark.parametrize(
        ("others", "text"),
        [
            (
                "a",
                "No difference in this table can be significant at .05: the smallest p that an exact paired test over 5 seeds",
            ),
            ("ac", "over 8 seeds can give is 0.0078125; over 5, which is all that some cells have, 0.0625."),
        ],
    )
    def test_cells_of_fewer_seeds_are_told(self, others, text):
        """A cell that lost seeds decides for itself only: two others that have them all can still differ."""
        lost = runs_of("b", [0.5] * 5 + [Absent("the run diverged in task 1 at step 2")])
        runs = [*lost, *(run for method in others for run in runs_of(method, [0.5] * 8))]

        assert text in significance(benchmarks(runs)[0])


class TestNumbers:
    """Values for people."""

    def test_groups_are_counted_once(self):
        """What is measured of a group is averaged over attempts, not over the seeds that one of them trained."""
        times = (("a.1", 10.0), ("a.1", 10.0), ("b.1", 40.0))
        runs = [
            run._replace(attempt=attempt, values={"seconds_group": seconds})
            for run, (attempt, seconds) in zip(runs_of("er", [0.5] * 3), times, strict=True)
        ]
        [benchmark] = benchmarks(runs)

        assert benchmark.variants[0].summary("seconds_group")[:3] == (25.0, stdev([10.0, 40.0]), 2)

    def test_one_seed_has_no_spread(self):
        """With one value there is a mean and no standard deviation."""
        assert summarise([0.5, Absent("no")]) == (0.5, None, 1, ("no",))

    def test_many_bytes(self):
        """Large sizes are written in GiB."""
        assert number(3 * 2**30, "bytes") == "3.0 GiB"

    def test_no_value_no_figure(self):
        """A figure without any value is not drawn."""
        assert bars("k", benchmarks(runs_of("a", [Absent("no")]))[0]) is None

    def test_variants_of_other_numbers_of_tasks(self):
        """Where a study varies the number of tasks, each variant has its own line, and joint training is a level."""
        three = dict.fromkeys(("head_rows", "tasks", "stages"), 3) | {"task_rows": [[0], [1], [2]], "test_samples": [10] * 3}
        rows = {"accuracy": [[0.5] * 3] * 3, "accuracy_all_rows": [[0.5] * 3] * 3, "baseline": [0.5] * 3}
        long = dataclasses.replace(one_task("domain"), **three, **rows)
        short = dataclasses.replace(long, tasks=2, stages=2, **{key: value[:2] for key, value in rows.items()})
        joint = dataclasses.replace(short, stages=1, accuracy=[[0.5] * 2], accuracy_all_rows=[[0.5] * 2])
        runs = [
            *runs_of("a", [0.5], {"benchmark.tasks": 2}, "domain", short),
            *runs_of("a", [0.5], {"benchmark.tasks": 3}, "domain", long),
            *runs_of("joint", [0.5], {"benchmark.tasks": 2}, "domain", joint),
        ]
        with styled():
            [drawing] = [curves("k", benchmarks(runs)[0])]

        assert "a tasks=2 from 0.50 to 0.50; a tasks=3 from 0.50 to 0.50; joint tasks=2 0.50" in drawing.alt
