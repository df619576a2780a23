"""Comparisons with a baseline, and the choice of variants that enter them."""

import csv
import io
import json

import pytest

from contilab.errors import InputError, UsageError
from contilab.metrics.contract import Absent
from contilab.metrics.table import metric
from contilab.report.benchmark import benchmarks
from contilab.report.comparison import Paired, families
from contilab.report.comparison_table import comparison_table, statement
from contilab.report.runs import RunReport
from contilab.report.selection import choices, factors, selected, selection_json
from contilab.report.statistics.family import holm
from contilab.report.write import write_report
from contilab.spec.sections import Execution
from contilab.spec.study import Cell, Study

LOST = Absent("the run diverged in task 1 at step 2")


def cell(method, preset="p", **sweep):
    """Return a cell of one benchmark."""
    keys = {key.replace("__", "."): value for key, value in sweep.items()}
    return Cell(preset=preset, benchmark="b", scenario="class", method=method, sweep=keys, execution=Execution(), runs={})


def runs_of(of, accs, validation=None):
    """Return runs of the cell *of*, one per final accuracy, with the validation accuracies beside them."""
    scores = accs if validation is None else validation
    return [
        RunReport(of, seed, f"{of.method}{of.sweep}{seed}", "finished", values={"acc": acc, "acc_validation": score})
        for seed, (acc, score) in enumerate(zip(accs, scores, strict=True))
    ]


def only_family(*groups, baseline=""):
    """Return the family of `acc` of one benchmark."""
    [benchmark] = benchmarks([run for group in groups for run in group])
    [family] = families(benchmark, choices(benchmark), baseline)
    return family


NAIVE = [0.2, 0.21, 0.19, 0.2, 0.2, 0.22, 0.2]
BETTER = [0.5, 0.52, 0.55, 0.5, 0.51, 0.53, 0.54]


class TestPairs:
    """Differences are taken seed by seed."""

    def test_each_method_minus_the_baseline(self):
        """Naive is the baseline wherever it stands, and each difference is of one seed."""
        family = only_family(runs_of(cell("er"), BETTER), runs_of(cell("naive"), NAIVE))
        [item] = family.comparisons

        assert (family.baseline, item.label, family.size) == ("naive", "er", 1)
        assert list(item.found.differences.values()) == pytest.approx([b - n for b, n in zip(BETTER, NAIVE, strict=True)])
        assert item.found.p == item.found.minimum == item.adjusted == 2**-6
        assert family.verdict(item) == "significant"

    def test_a_seed_that_one_side_lost_is_left_out(self):
        """A seed without a value on either side is no pair, and the others stand."""
        family = only_family(runs_of(cell("naive"), [0.2, LOST, 0.2]), runs_of(cell("er"), [0.5, 0.5, LOST]))

        assert family.comparisons[0].found.differences == {0: pytest.approx(0.3)}

    def test_no_pair_gives_the_reason(self):
        """A method without a value says why, and the family counts only the tests that were made."""
        family = only_family(runs_of(cell("naive"), NAIVE), runs_of(cell("er"), BETTER), runs_of(cell("ewc"), [LOST] * 7))

        assert family.comparisons[1].found == LOST
        assert family.size == 1
        assert comparison_table(family).notes == (("a", LOST.reason),)

    def test_the_baseline_may_be_named(self):
        """A method or a label takes the place of naive."""
        family = only_family(runs_of(cell("naive"), NAIVE), runs_of(cell("er"), BETTER), baseline="er")

        assert (family.baseline, family.comparisons[0].label) == ("er", "naive")
        assert family.comparisons[0].found.effect.lost == 7

    def test_nothing_beside_the_baseline(self):
        """One method alone is compared with nothing, and so is a baseline that is not there."""
        [benchmark] = benchmarks(runs_of(cell("naive"), NAIVE))

        assert families(benchmark, choices(benchmark)) == families(benchmark, choices(benchmark), "er") == ()


class TestClaims:
    """What a family may say."""

    def test_holm_corrects_the_family(self):
        """The adjusted values are Holm's over the methods of one metric."""
        worse = [0.19, 0.22, 0.18, 0.21, 0.2, 0.21, 0.21]
        family = only_family(*(runs_of(cell(name), accs) for name, accs in (("naive", NAIVE), ("er", BETTER), ("ewc", worse))))

        assert [item.adjusted for item in family.comparisons] == holm([item.found.p for item in family.comparisons])
        assert [family.verdict(item) for item in family.comparisons] == ["significant", "not significant"]

    def test_few_seeds_cannot(self):
        """Five seeds of one sign cannot be significant, and the least p stands beside p."""
        family = only_family(runs_of(cell("naive"), NAIVE[:5]), runs_of(cell("er"), BETTER[:5]))

        assert family.verdict(family.comparisons[0]) == "cannot be significant"
        assert comparison_table(family).lines[0].entries[1].detail == "Wilcoxon .0625, least .0625"
        assert comparison_table(family).lines[0].entries[3].text == "cannot be significant"

    def test_a_large_family_cannot(self):
        """Six seeds are enough for one test, but not for a family of three: Holm's first step needs seven."""
        groups = [runs_of(cell(name), BETTER[:6]) for name in ("er", "ewc", "si")]
        family = only_family(runs_of(cell("naive"), NAIVE[:6]), *groups)

        assert {family.verdict(item) for item in family.comparisons} == {"cannot be significant"}
        assert "3 tests need 7 seeds" in statement(family)

    def test_coverage_is_told(self):
        """Below ten seeds the coverage of the bootstrap interval stands with it."""
        family = only_family(runs_of(cell("naive"), NAIVE[:6]), runs_of(cell("er"), BETTER[:6]))

        assert "in about 86 % of cases" in statement(family)

    def test_lower_is_better_for_forgetting(self):
        """Seeds are won in the direction of the metric."""
        runs = [
            run._replace(values={"acc": 0.5, "forgetting": value})
            for method, value in (("naive", 0.9), ("er", 0.1))
            for run in runs_of(cell(method), [0.5])
        ]
        [benchmark] = benchmarks(runs)
        found = {family.metric.name: family for family in families(benchmark, choices(benchmark))}

        assert metric("forgetting").higher_is_better is False
        assert isinstance(found["forgetting"].comparisons[0].found, Paired)
        assert found["forgetting"].comparisons[0].found.effect.won == 1


class TestSelection:
    """Variants are chosen on validation samples."""

    def grid(self, *points):
        """Return the choice among points of (strength, acc, validation)."""
        runs = [
            run for strength, accs, scores in points for run in runs_of(cell("ewc", method__strength=strength), accs, scores)
        ]
        [benchmark] = benchmarks(runs)
        [choice] = choices(benchmark)
        return choice

    def test_test_samples_do_not_count(self):
        """The point with the best validation score is chosen, though another one has the best test accuracy."""
        choice = self.grid((1, [0.9, 0.9], [0.5, 0.5]), (10, [0.1, 0.1], [0.6, 0.6]))

        assert choice.chosen.label == "ewc strength=10"
        assert selected([choice]) == {
            f"ewc{{'method.strength': {strength}}}{seed}": strength == 10 for strength in (1, 10) for seed in (0, 1)
        }

    def test_ties_go_to_the_earlier_point(self):
        """Of two equal scores the first of the grid is chosen."""
        assert self.grid((10, [0.1], [0.5]), (1, [0.9], [0.5])).chosen.label == "ewc strength=10"

    def test_a_point_that_lost_a_seed_cannot_win(self):
        """A mean over the seeds that did not diverge is not compared with one over all of them."""
        assert self.grid((1, [0.9, LOST], [0.9, LOST]), (10, [0.5, 0.5], [0.5, 0.5])).chosen.label == "ewc strength=10"

    def test_without_validation_nothing_is_chosen(self):
        """Without validation samples there is no choice, but a reason, and all variants enter the comparison."""
        none = Absent("no validation samples were held out of training")
        choice = self.grid((1, [0.9], [none]), (10, [0.5], [none]))

        assert (choice.chosen, choice.reason) == (None, f"all 2 variants are shown; none was selected ({none.reason})")
        assert len(choice.candidates) == 2
        assert selected([choice]) == {}

    def test_factors_are_not_chosen_from(self):
        """A key of the matrix is part of the question: each of its values has a choice of its own."""
        runs = [
            run
            for total in (1, 2)
            for lr in (0.1, 0.2)
            for run in runs_of(cell("er", memory__total=total, optim__lr=lr), [lr], [lr])
        ]
        [benchmark] = benchmarks(runs)
        found = choices(benchmark, {"memory.total"})

        assert [choice.chosen.label for choice in found] == ["er total=1 lr=0.2", "er total=2 lr=0.2"]
        assert [choice.title for choice in found] == ["Selection of er total=1", "Selection of er total=2"]

    def test_factors_are_read_from_manifest_and_command_line(self):
        """Dotted keys of the matrix, quoted or not, and those of the command line; preset, method and seed are none."""
        manifest = "[matrix]\nmethod = ['er']\nseed = [0]\n'train.epochs' = [1, 2]\nmemory.total = [1]\n"
        study = Study(name="a", manifest=manifest, values=("matrix.optim.lr=[1]", "train.batch=3"), cells=())

        assert factors(study) == {"train.epochs", "memory.total", "optim.lr"}


class TestFiles:
    """What the report stores of both."""

    def test_comparisons_csv(self, written):
        """One row per test, with its family, its values by seed and the reason where there is none."""
        with (written.directory / "comparisons.csv").open(newline="") as file:
            found = {(row["preset"], row["metric"], row["method"]): row for row in csv.DictReader(file)}
        row = found["tiny_class", "acc", "er"]

        assert (row["baseline"], row["family_size"], row["n"], row["p"], row["p_least"]) == ("naive", "3", "2", "0.5", "0.5")
        assert list(json.loads(row["differences"])) == ["0", "2"]
        assert found["tiny_class", "bwt", "joint"]["reason"] == "joint has one training stage"

    def test_selection_is_stored(self, written):
        """Grid, scores and choice lie in selection.json, and results.csv says which rows are of the chosen variants."""
        [grid] = json.loads((written.directory / "selection.json").read_text())["presets"]["tiny_class"]
        with (written.directory / "results.csv").open(newline="") as file:
            marks = [(row["method"], row["method.strength"], row["selected"]) for row in csv.DictReader(file)]

        assert [(point["settings"]["method.strength"], point["selected"]) for point in grid["grid"]] == [
            (1.0, False),
            (10.0, True),
        ]
        assert grid["grid"][0]["score"] is None
        assert {mark for mark in marks if mark[0] == "ewc"} == {("ewc", "1.0", "false"), ("ewc", "10.0", "true")}

    def test_scenarios_of_one_preset_are_all_stored(self):
        """Where a study varies the scenario of a preset, the grids of each of them are stored, and named."""
        [one] = benchmarks([*runs_of(cell("er", method__alpha=1), BETTER), *runs_of(cell("er", method__alpha=2), NAIVE)])
        pairs = [(each, choices(each)) for each in (one, one._replace(scenario="task"))]

        assert [grid["scenario"] for grid in json.loads(selection_json(pairs))["presets"]["p"]] == ["class", "task"]

    def test_an_unknown_baseline_is_refused(self, store, tmp_path):
        """A baseline that no benchmark has is an error that names the methods."""
        with pytest.raises(UsageError, match='nothing can be compared with "nave"'):
            write_report(store.root, "tiny", tmp_path, baseline="nave")


class TestTwoStudies:
    """A study set beside another one."""

    def test_equal_cells_are_the_same_runs(self, store, tmp_path, no_figures):
        """A study compared with itself has differences of 0, and the report says that the runs are shared."""
        text = write_report(store.root, "tiny", tmp_path, compare="tiny").path.read_text()

        assert "Compared with tiny" in text
        assert "15 runs are the same in both studies: their differences are 0 by construction." in text
        assert "The cells have the same settings in both studies." in text

    def test_settings_that_differ_stand_first(self, new_study, tmp_path, add_second, no_figures):
        """Cells of equal method are compared, and each setting in which they differ is named before the numbers."""
        store = new_study([("p", "naive", [0, 1], {}, "task"), ("p", "ewc", [0, 1], {"strength": 1.0}, "task")])
        add_second(store, [("p", "ewc", [0, 1], {"strength": 5.0}, "task")])
        done = write_report(store.root, "tiny", tmp_path / "out", compare="second")

        assert done.page.against[0].differences == {"ewc strength=1.0": ("method.strength: 1.0 here, 5.0 there",)}
        assert done.page.against[0].families[0].comparisons[0].found.effect.mean == pytest.approx(-0.08 * 2.7 / 4)

    def test_scenarios_are_not_compared(self, new_study, tmp_path, add_second):
        """A task-incremental study is not set beside a class-incremental one."""
        store = new_study([("p", "naive", [0], {}, "task")])
        add_second(store, [("p", "naive", [0], {}, "class")])

        with pytest.raises(InputError, match="results of different scenarios cannot be compared"):
            write_report(store.root, "tiny", tmp_path / "out", compare="second")

    def test_nothing_in_common(self, new_study, tmp_path, add_second):
        """Studies without a common cell are refused, and both sides are named."""
        store = new_study([("p", "naive", [0], {}, "task")])
        add_second(store, [("q", "naive", [0], {}, "task")])

        with pytest.raises(InputError, match="no cell is in both studies"):
            write_report(store.root, "tiny", tmp_path / "out", compare="second")


class TestFormulas:
    """Texts that spreadsheets would run."""

    def test_a_formula_is_a_text(self, new_study, tmp_path, no_figures):
        """A setting that begins like a formula is quoted in results.csv; negative numbers stay numbers."""
        cells = [("p", "naive", [0], {"note": '=HYPERLINK("http://x")'}, "task"), ("p", "er", [0], {"note": "@a"}, "task")]
        done = write_report(new_study(cells).root, "tiny", tmp_path / "out")
        rows = list(csv.DictReader(io.StringIO((done.directory / "results.csv").read_text())))

        assert [row["method.note"] for row in rows] == ['\'=HYPERLINK("http://x")', "'@a"]
        assert float(rows[0]["bwt"]) < 0
