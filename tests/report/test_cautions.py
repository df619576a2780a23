"""What a reader is warned of, how methods rank over benchmarks, and what papers take."""

import dataclasses

import pytest

from contilab.metrics.contract import Absent
from contilab.records.record import Cost, Record
from contilab.report.benchmark import benchmarks
from contilab.report.cautions import Found, cautions
from contilab.report.comparison import families
from contilab.report.figures.ranks import ranks
from contilab.report.figures.svg import styled
from contilab.report.protocol import Protocol
from contilab.report.runs import RunReport
from contilab.report.selection import choices
from contilab.report.standing import standings
from contilab.report.wording import standing_text
from contilab.report.write import write_report
from contilab.spec.sections import Execution
from contilab.spec.study import Cell

ACCS = {"naive": 0.2, "ewc": 0.3, "er": 0.8}
RECORD = Record(
    scenario="class",
    tasks=1,
    head_rows=2,
    task_rows=[[0, 1]],
    test_samples=[10],
    stages=1,
    accuracy=[[0.5]],
    baseline=[0.5],
    accuracy_all_rows=[[0.5]],
)


def found(preset="p", *, accs=ACCS, seeds=7, lost=0, scenario="class", own=None, shared=None, **notes):
    """Return what is known of a benchmark of methods with these *accs*; *notes* are of the runs of ewc, which *lost* some."""
    record = dataclasses.replace(RECORD, scenario=scenario, notes=notes)
    runs = [
        RunReport(
            Cell(preset=preset, benchmark="b", scenario=scenario, method=method, sweep={}, execution=Execution(), runs={}),
            seed,
            f"{method}{seed}",
            "finished",
            values={"acc": Absent("it diverged") if method == "ewc" and seed < lost else acc + seed / 1000},
            record=record if method == "ewc" else dataclasses.replace(record, notes={}),
        )
        for method, acc in accs.items()
        for seed in range(seeds)
    ]
    [benchmark] = benchmarks(runs)
    chosen = choices(benchmark)
    return Found(benchmark, Protocol(shared or {}, own or {}), chosen, families(benchmark, chosen))


def only_ewc(one):
    """Return *one* with the runs of ewc only."""
    variants = tuple(variant for variant in one.benchmark.variants if variant.label == "ewc")
    return one._replace(benchmark=one.benchmark._replace(variants=variants))


def texts(one, mismatches=()):
    """Return the cautions by the beginning of their text."""
    return {notice.text.split(":")[0]: notice.items for notice in cautions([one], mismatches)}


class TestCautions:
    """Each stands where it applies, and only there."""

    def test_too_few_seeds(self):
        """Two comparisons need seven seeds: with six they are warned of, with seven they are not."""
        assert texts(found(seeds=6))["Too few seeds"] == ("p: 6 seeds, 2 comparisons need 7",)
        assert "Too few seeds" not in texts(found(seeds=7))

    @pytest.mark.parametrize(
        ("seeds", "lost", "items"),
        [(6, 5, None), (5, 0, ("p: 5 seeds, a single comparison needs 6",)), (7, 6, None)],
    )
    def test_too_few_seeds_of_cells_that_are_not_compared(self, seeds, lost, items):
        """Where nothing is compared the cells could be, and one that lost seeds limits no two others."""
        assert texts(found(seeds=seeds, lost=lost)._replace(families=())).get("Too few seeds") == items

    @pytest.mark.parametrize(
        ("seeds", "lost", "items"),
        [
            (9, 0, ("p: 9 seeds",)),
            (9, 1, ("p: 8 to 9 seeds",)),
            (9, 8, ("p: 9 seeds in 1 of 2 comparisons",)),
            (12, 4, ("p: 8 seeds in 1 of 2 comparisons",)),
            (12, 2, None),
        ],
    )
    def test_narrow_intervals(self, seeds, lost, items):
        """Below ten seeds the bootstrap intervals are too narrow: of those comparisons that have so few, and of no others."""
        assert texts(found(seeds=seeds, lost=lost)).get("Fewer than ten seeds") == items

    def test_capped_ewc(self):
        """A cap that was at work is named with its share; one that never was is not."""
        assert texts(found(ewc_capped_share=0.25))["EWC was capped"] == ("p: ewc, up to 25 % of the parameters in 7 seeds",)
        assert "EWC was capped" not in texts(found(ewc_capped_share=0.0))

    def test_classes_that_cannot_be_predicted(self):
        """Where memory had no sample of a class, every sample of it counts as wrong, and the report says so."""
        name = "Classes without a sample in memory cannot be predicted and count as wrong"

        assert texts(found(classes_without_entry=2))[name] == ("p: ewc, up to 2 classes in 7 seeds",)
        assert name not in texts(found(classes_without_entry=0))
        assert name not in texts(found(classes_without_entry="some"))

    @pytest.mark.parametrize(("kept", "items"), [(0, ("p: ewc",)), (8, None)])
    def test_memory_that_kept_nothing(self, monkeypatch, kept, items):
        """A memory whose quotas are below one sample is told apart from one that holds some."""
        cost = Cost(buffer_bytes=kept, buffer_sample_bytes=100)
        monkeypatch.setattr(f"{__name__}.RECORD", dataclasses.replace(RECORD, cost=cost))

        assert texts(only_ewc(found())).get("Memory was too small for its quotas and kept no sample") == items

    def test_protocol_differences(self):
        """Cells that differ in more than their method are named with their values; hyperparameters of methods are not."""
        own = {"naive": {"train.epochs": "1", "method.name": "naive"}, "er": {"train.epochs": "2", "memory.total": "9"}}
        items = texts(found(own=own))["The cells of one table differ in more than their method"]

        assert items == ("p: train.epochs is 1 for naive, 2 for er",)

    def test_validation_is_held_out(self):
        """Held-out samples are training data that published numbers had."""
        name = "Part of the training samples were held out for validation; published numbers use all of them"

        assert texts(found(shared={"benchmark.validation": "0.1"}))[name] == ("p: benchmark.validation = 0.1",)
        assert name not in texts(found(shared={"benchmark.validation": "0.0"}))

    @pytest.mark.parametrize(
        ("tasks", "class_order", "is_told"), [(2, "natural", True), (2, None, False), (1, "natural", False)]
    )
    def test_one_order_of_tasks(self, monkeypatch, tasks, class_order, is_told):
        """Seeds that learn tasks in one order say nothing of other orders; a study that varies the order is not warned."""
        monkeypatch.setattr(f"{__name__}.RECORD", dataclasses.replace(RECORD, tasks=tasks))
        orders = {"benchmark.class_order_seed": class_order, "benchmark.task_order_seed": "natural"}
        own = {label: {"benchmark.class_order_seed": str(place)} for place, label in enumerate(ACCS)}
        facts = {"shared": orders} if class_order else {"shared": {"benchmark.task_order_seed": "natural"}, "own": own}
        items = texts(found(**facts)).get("All seeds learned the tasks in one order")

        assert items == (("p: class order natural, task order natural",) if is_told else None)

    def test_settings_that_were_not_selected(self):
        """Methods with settings of their own are named where the study holds one value of each."""
        own = {"naive": {"method.name": "naive"}, "ewc": {"method.strength": "30.0"}, "er": {"memory.total": "500"}}

        assert texts(found(own=own))["Settings of methods were not selected in this study"] == ("p: ewc",)
        assert "Settings of methods were not selected in this study" not in texts(found())

    @pytest.mark.parametrize(("seconds", "items"), [(8.6, ("p: up to 86 % of seconds_group",)), (5.0, None)])
    def test_time_of_recording(self, monkeypatch, seconds, items):
        """Times that are mostly those of evaluation and records are no times of methods."""
        cost = Cost(seconds_group=10.0, seconds_recording=seconds)
        monkeypatch.setattr(f"{__name__}.RECORD", dataclasses.replace(RECORD, cost=cost))

        assert texts(found()).get("Most of the time went into evaluation and records") == items

    def test_attempts_that_disagree(self):
        """Runs of this study that two attempts disagree about come first."""
        items = texts(found(), [{"rid": "er0"}, {"rid": "other"}])

        assert next(iter(items.items())) == ("Two attempts at these runs disagree", ("run er0",))


class TestStandings:
    """Ranks over benchmarks."""

    def test_scenarios_are_apart(self):
        """Two benchmarks of one scenario make a ranking, one of another does not join it."""
        [standing] = standings([found("p"), found("q"), found("r", scenario="task")])

        assert (standing.scenario, standing.presets, standing.ranking.benchmarks) == ("class", ("p", "q"), 2)
        assert standing.ranking.ranks == (3.0, 2.0, 1.0)

    def test_few_benchmarks_only_describe(self):
        """Where no two methods can differ by the critical difference, the report says that ranks only describe."""
        few, many = (standings([found(str(place)) for place in range(size)])[0] for size in (2, 12))

        assert "the ranks only describe" in standing_text(few)
        assert "the ranks only describe" not in standing_text(many)

    def test_sixteen_methods_on_six_benchmarks_only_describe(self):
        """Of 15 ranks 9.42 are too much for a claim, though the first and the last of the methods are further apart."""
        accs = {f"m{place:02}": place / 20 for place in range(16)}
        [standing] = standings([found(str(place), accs=accs, seeds=1) for place in range(6)])
        text = standing_text(standing)

        assert "Nemenyi critical difference at .05: 9.42 of 15 ranks possible." in text
        assert "the best method could not be told from half of the others: the ranks only describe." in text

    def test_seeds_that_are_lost_are_told(self):
        """A mean of fewer seeds than planned is named with its benchmark, since the others are ranked beside it."""
        whole, lacking = found("p"), found("q")
        lost = lacking.benchmark.variants[0].runs[0].values
        lost["acc"] = Absent("it diverged")

        [standing] = standings([whole, lacking])

        assert standing.short == (f"{lacking.benchmark.variants[0].label} in q (6 of 7)",)
        assert f"Means of fewer seeds than planned: {standing.short[0]}." in standing_text(standing)
        assert "fewer seeds" not in standing_text(standings([whole, found("r")])[0])

    def test_the_diagram(self):
        """It names each method with its rank, and the critical difference, and says where ranks only describe."""
        few, many = (standings([found(str(place), seeds=1) for place in range(size)])[0] for size in (2, 12))
        with styled():
            [described], [drawing] = ranks("k", few), ranks("k", many)

        assert "er 1.00, ewc 2.00, naive 3.00. Critical difference 0.96." in drawing.alt
        assert "<svg" in drawing.inline
        assert described.caption == f"{drawing.caption} The ranks only describe.".replace("12 b", "2 b")

    def test_one_benchmark_has_no_ranking(self):
        """Seeds are no benchmarks."""
        assert standings([found()]) == ()


@pytest.fixture(scope="module")
def text(store, tmp_path_factory, undrawn):
    """The tables of the study with hostile names, for a paper."""
    with undrawn():
        return write_report(store.root, "tiny", tmp_path_factory.mktemp("tex"), is_latex=True).path.read_text()


class TestLatex:
    """tables.tex."""

    def test_it_is_balanced(self, text):
        """Every environment and every brace is closed, and every line of a table has its cells."""
        bare = text.replace(r"\{", "").replace(r"\}", "")
        bodies = [part.split(r"\bottomrule")[0] for part in text.split(r"\midrule")[1:]]

        assert bare.count("{") == bare.count("}")
        assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == len(bodies) > 2
        assert all(line.endswith(r"\\") for body in bodies for line in body.strip().splitlines())

    def test_texts_of_a_study_stay_texts(self, text):
        """A setting with special letters is shown as it is written."""
        assert r"note=\textless{}b\textgreater{}\$x\$\textbar{}" in text
        assert "<b>" not in text
