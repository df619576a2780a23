"""Variants that differ on purpose, such as sizes of memory: all are shown, none is selected, and no two rows look alike."""

import csv
import html
import io
import json
import re

import pytest

from contilab.metrics.contract import Absent
from contilab.report.benchmark import benchmarks
from contilab.report.cautions import Found, cautions
from contilab.report.comparison import families
from contilab.report.figures.svg import styled
from contilab.report.figures.sweep import sweep
from contilab.report.protocol import Protocol
from contilab.report.runs import RunReport
from contilab.report.selection import choices, in_full, selected, selection_json
from contilab.report.standing import standings
from contilab.report.wording import standing_text
from contilab.report.write import write_report
from contilab.spec.sections import Execution
from contilab.spec.study import Cell

NONE = Absent("no validation samples were held out of training")
HOSTILE = ("<b>$x$|", "=1--1''2")  # values of a factor
MANIFEST = "name = 'tiny'\n[matrix]\nseed = [0, 1]\n'method.note' = ['<b>$x$|', \"=1--1''2\"]\n"
CELLS = [
    ("p", "naive", [0, 1], {}, "task"),
    *(("p", "er", [0, 1], {"note": note}, "task") for note in HOSTILE),
    *(("p", "ewc", [0, 1], {"note": note, "strength": strength}, "task") for note in HOSTILE for strength in (1.0, 9.0)),
]


def runs_of(method, acc, validation=NONE, preset="p", **sweep):
    """Return two runs of one cell."""
    keys = {key.replace("__", "."): value for key, value in sweep.items()}
    cell = Cell(preset=preset, benchmark="b", scenario="class", method=method, sweep=keys, execution=Execution(), runs={})
    values = {"acc": acc, "acc_validation": validation}
    return [RunReport(cell, seed, f"{method}{keys}{seed}", "finished", values=values) for seed in (0, 1)]


def memories(validation=NONE, preset="p", **more):
    """Return the benchmark of naive and of er with two sizes of memory."""
    sizes = [run for size in (200, 500) for run in runs_of("er", size / 1000, validation, preset, memory__total=size, **more)]
    return benchmarks([*runs_of("naive", 0.2, preset=preset), *sizes])[0]


def of_er(benchmark):
    """Return the only choice of er."""
    [choice] = [choice for choice in choices(benchmark) if choice.method == "er"]
    return choice


class TestMemory:
    """A sweep over the size of memory."""

    @pytest.mark.parametrize("validation", [NONE, 0.5])
    def test_none_is_selected(self, validation):
        """With or without validation samples no size is chosen, both are compared, and the report says so."""
        benchmark = memories(validation)
        choice = of_er(benchmark)

        assert choice.statement == "All 2 variants are shown; none was selected (memory.total varies on purpose)."
        assert [variant.label for variant in choice.candidates] == ["er total=200", "er total=500"]
        assert selected([choice]) == {}
        assert len(families(benchmark, choices(benchmark))[0].comparisons) == 2

    def test_it_is_no_caution(self):
        """That none was selected is a warning for hyperparameters, of which one is wanted, and for no size of memory."""
        grid = benchmarks([run for lr in (1, 2) for run in runs_of("er", 0.5, optim__lr=lr)])[0]
        texts = [
            [item for notice in cautions([Found(one, Protocol({}, {}), choices(one), ())], ()) for item in notice.items]
            for one in (memories(), grid)
        ]

        assert not [item for item in texts[0] if "selected" in item]
        assert f"p: er, all 2 variants are shown; none was selected ({NONE.reason})" in texts[1]

    def test_methods_are_named_together(self):
        """One sentence tells of all methods of which the same holds, none of a method with one variant."""
        both = [run for name in ("er", "derpp") for size in (1, 2) for run in runs_of(name, 0.5, memory__total=size)]
        sentence = "er, derpp: all 2 variants are shown; none was selected (memory.total varies on purpose)."

        assert in_full(choices(benchmarks([*runs_of("naive", 0.2), *both])[0])) == sentence

    def test_hyperparameters_are_chosen_for_each_size(self):
        """Where a hyperparameter varies as well, each size has a choice of its own, which its name tells apart."""
        runs = [
            run
            for size in (200, 500)
            for lr, score in ((0.1, 0.4), (0.2, 0.3))
            for run in runs_of("er", 0.5, score, memory__total=size, optim__lr=lr)
        ]
        [benchmark] = benchmarks(runs)
        grids = json.loads(selection_json([(benchmark, choices(benchmark))]))["presets"]["p"]

        assert [choice.title for choice in choices(benchmark)] == ["Selection of er total=200", "Selection of er total=500"]
        assert [grid["factors"] for grid in grids] == [{"memory.total": 200}, {"memory.total": 500}]
        assert [grid["grid"][0]["settings"] for grid in grids] == [{"optim.lr": 0.1}] * 2

    def test_the_figure_marks_no_choice(self):
        """The accuracy over sizes is drawn without a line of choice, and the caption says why."""
        with styled():
            drawing = sweep("k", choices(memories()))

        assert "er by acc, 200: 0.200; 500: 0.500, none selected" in drawing.alt
        assert drawing.caption.endswith("seeds. Where no line stands, all variants are shown; none was selected.")

    def test_each_size_is_ranked(self):
        """Over benchmarks each size has a rank, under its own name; a method without a choice is named as left out."""
        made = [memories(preset=preset) for preset in "pq"]
        grid = [
            one._replace(variants=(*one.variants, *benchmarks(runs_of("si", 1, a=1) + runs_of("si", 1, a=2))[0].variants))
            for one in made
        ]
        [standing] = standings([Found(one, Protocol({}, {}), choices(one), ()) for one in grid])

        assert standing.ranking.names == ("naive", "er total=200", "er total=500")
        assert "of which none was selected: si." in standing_text(standing)


@pytest.fixture(scope="module")
def written(new_study, tmp_path_factory):
    """The report of a study with a factor of hostile values, one method with a hyperparameter besides."""
    return write_report(new_study(CELLS, manifest=MANIFEST).root, "tiny", tmp_path_factory.mktemp("out"), is_latex=True)


def text_of(written, name):
    """Return a file of the report."""
    return (written.directory / name).read_text(encoding="utf-8")


def rows_of(written, name):
    """Return the first cells of the rows of each table of a page: head, and seed or settings, with their headers."""
    text = text_of(written, name)
    if name.endswith("tex"):
        return [
            [[line.split(" & ")[0]] for line in part.split(r"\bottomrule")[0].split("\\\\\n")[1:-1]]
            for part in text.split(r"\toprule")[1:]
        ]
    if name.endswith("md"):
        blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
        return [[re.split(r"(?<!\\)\|", line)[1:3] for line in block.splitlines()[2:]] for block in blocks]
    bodies = re.findall(r"<tbody>(.*?)</tbody>", text, re.DOTALL)
    return [
        [re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)[:2] for row in re.findall(r"<tr>.*?</tr>", body, re.DOTALL)]
        for body in bodies
    ]


class TestRows:
    """Rows of such variants in every table."""

    @pytest.mark.parametrize("name", ["report.md", "report.html", "tables.tex"])
    def test_no_two_are_alike(self, written, name):
        """In each table of each page a row is told apart by its head, or by head and seed."""
        tables = [[" ".join(cells) for cells in rows] for rows in rows_of(written, name)]

        assert len(tables) > 5
        assert [rows for rows in tables if len(rows) != len(set(rows))] == []

    @pytest.mark.parametrize("name", ["report.md", "report.html"])
    def test_tables_have_names_of_their_own(self, written, name):
        """Two choices of one method are told apart by their headings."""
        text = html.unescape(text_of(written, name)).replace("\\", "")

        assert [text.count(f"{'### ' if name.endswith('md') else '<h3>'}Selection of ewc note={note}") for note in HOSTILE] == [
            1,
            1,
        ]
        assert "er: all 2 variants are shown; none was selected (method.note varies on purpose)." in text

    @pytest.mark.parametrize(
        ("name", "keys"), [("results.csv", ("method", "seed")), ("comparisons.csv", ("metric", "baseline"))]
    )
    def test_programs_have_a_column_per_setting(self, written, name, keys):
        """In both tables rows are told apart by columns of the settings that vary."""
        rows = list(csv.DictReader(io.StringIO(text_of(written, name))))
        found = [tuple(row[key] for key in (*keys, "method.note", "method.strength")) for row in rows]
        methods = [row["method"].split()[0] for row in rows]

        assert len(set(zip(methods, found, strict=True))) == len(rows)
        assert {row["method.note"] for row in rows if row["method"].startswith("er")} == {HOSTILE[0], f"'{HOSTILE[1]}"}

    def test_none_of_them_is_selected(self, written):
        """results.csv says true or false where a variant was chosen, and nothing where all are shown."""
        marks = {(row["method"], row["selected"]) for row in csv.DictReader(io.StringIO(text_of(written, "results.csv")))}

        assert marks == {("naive", "true"), ("er", ""), ("ewc", "true"), ("ewc", "false")}


class TestTexts:
    """Values of a factor, in the places that name it."""

    @pytest.mark.parametrize(
        ("name", "raw", "shown"),
        [
            ("report.html", "<b>$x$", "note=&lt;b&gt;$x$|"),
            ("report.md", "<b>", r"Selection of ewc note=&lt;b&gt;\$x\$\|"),
            ("tables.tex", "$x$", r"ewc note=\textless{}b\textgreater{}\$x\$\textbar{} strength=9.0"),
            ("tables.tex", "--1", "er note==1-{}-1'{}'2"),
        ],
    )
    def test_stay_texts(self, written, name, raw, shown):
        """They are shown as they are written, outside the manifest that Markdown shows as code."""
        text = text_of(written, name).split("## Reproduce")[0]

        assert raw not in text
        assert shown in text
