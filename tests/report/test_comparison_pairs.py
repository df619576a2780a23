"""Comparisons of all pairs of methods: `contilab report --pairs all`."""

import csv
from collections import defaultdict

import pytest
from typer.testing import CliRunner

from contilab.cli.app import app
from contilab.report.benchmark import benchmarks
from contilab.report.comparison import families
from contilab.report.comparison_table import comparison_rows, comparison_table, statement
from contilab.report.page_html import page_html
from contilab.report.runs import RunReport
from contilab.report.selection import choices
from contilab.report.write import report_of
from contilab.spec.sections import Execution
from contilab.spec.study import Cell

# Seven seeds, all numbers exact in binary. What er wins over naive are powers of two, and ewc is naive but for two seeds.
WON = [1, 2, 4, 8, 16, 32, 64]
ACCS = {
    "naive": [0.25] * 7,
    "er": [0.25 + won / 512 for won in WON],
    "ewc": [0.25 + won / 512 for won in (2, 0, 0, 16, 0, 0, 0)],
}
# By hand, of 128 sign patterns. er - naive: all positive, so 2 patterns are as extreme. ewc - naive: two differences that are
# not zero, both positive: 2 of 4. ewc - er: -WON but for 1 and 8, which are positive: patterns whose minority weighs at most 9
# are as extreme, and the numbers 0 to 9 are sums of powers of two in one way each: 2 x 10.
P = [2 / 128, 2 / 4, 20 / 128]
ADJUSTED = [3 * 2 / 128, 2 / 4, 2 * 20 / 128]  # Holm: the smallest times 3, the next times 2, the largest as it is


def arranged(methods=tuple(ACCS)):
    """Return the benchmark of *methods*."""
    facts = {"preset": "p", "benchmark": "b", "scenario": "class", "sweep": {}, "execution": Execution(), "runs": {}}
    runs = [
        RunReport(Cell(method=method, **facts), seed, f"{method}{seed}", "finished", values={"acc": acc})
        for method in methods
        for seed, acc in enumerate(ACCS[method])
    ]
    return benchmarks(runs)[0]


def family_of(benchmark, baseline="", *, has_all_pairs=True):
    """Return the family of `acc`."""
    [family] = families(benchmark, choices(benchmark), baseline, has_all_pairs=has_all_pairs)
    return family


class TestFamily:
    """Every method against every other one."""

    def test_holm_over_all_pairs_by_hand(self):
        """Three methods make three tests, each corrected for all three."""
        found = family_of(arranged())

        assert [found.name(item) for item in found.comparisons] == ["er minus naive", "ewc minus naive", "ewc minus er"]
        assert [item.found.p for item in found.comparisons] == P
        assert [item.adjusted for item in found.comparisons] == ADJUSTED
        assert [found.verdict(item) for item in found.comparisons] == [
            "significant",
            "cannot be significant",
            "not significant",
        ]
        assert found.size == 3

    def test_the_default_compares_with_the_baseline(self):
        """Without the option there are two tests, corrected for two."""
        found = family_of(arranged(), has_all_pairs=False)

        assert [found.name(item) for item in found.comparisons] == ["er", "ewc"]
        assert [item.adjusted for item in found.comparisons] == [2 * P[0], P[1]]

    @pytest.mark.parametrize(
        ("order", "baseline", "names"),
        [
            (("er", "ewc", "naive"), "", ["er minus naive", "ewc minus naive", "ewc minus er"]),
            (("naive", "er", "ewc"), "er", ["naive minus er", "ewc minus er", "ewc minus naive"]),
        ],
    )
    def test_the_baseline_comes_first(self, order, baseline, names):
        """Whether it is named or naive, it is the second of its pairs; the others keep the order of the manifest."""
        found = family_of(arranged(order), baseline)

        assert [found.name(item) for item in found.comparisons] == names

    def test_one_method_has_no_pair(self):
        """A method alone is compared with nothing."""
        alone = arranged(("er",))

        assert families(alone, choices(alone), has_all_pairs=True) == ()


class TestReport:
    """What the report says of them."""

    def test_statement_and_table(self):
        """The text says what is compared and in how large a family, and each line names its pair."""
        found = family_of(arranged())
        table = comparison_table(found)

        assert statement(found).startswith(
            "acc, each pair of methods, the second its baseline, paired by seed; one Holm family of 3 tests."
        )
        assert (table.corner, [line.head for line in table.lines]) == (
            "pair",
            ["er minus naive", "ewc minus naive", "ewc minus er"],
        )
        assert [line.entries[2].text for line in table.lines] == [".04688", ".5", ".3125"]

    def test_rows_for_programs(self):
        """Each row names both methods of its pair, the size of the family and the corrected p."""
        benchmark = arranged()
        rows = list(comparison_rows(benchmark, [family_of(benchmark)]))

        assert [(row["baseline"], row["method"]) for row in rows] == [("naive", "er"), ("naive", "ewc"), ("er", "ewc")]
        assert [(row["family_size"], row["p_holm"]) for row in rows] == [(3, adjusted) for adjusted in ADJUSTED]

    def test_the_page_says_so(self, store):
        """The heading names all pairs in place of the baseline, and the cautions count them."""
        made = report_of(store, "tiny", has_all_pairs=True)[1]
        text = page_html(made, defaultdict(tuple), ())

        assert "<h3>All pairs of methods</h3>" in text
        assert "Compared with naive" not in text
        assert "6 comparisons need 8" in text

    def test_command(self, store, tmp_path, monkeypatch):
        """`--pairs all` compares the four methods of a study in six pairs, and a word that is neither is refused."""
        monkeypatch.setattr("contilab.report.write.find_spec", lambda _: None)  # no figures, which take long
        words = ["report", "tiny", "--store", str(store.root), "--out", str(tmp_path), "--pairs"]
        done, wrong = (CliRunner().invoke(app, [*words, value]) for value in ("all", "some"))
        with (tmp_path / "comparisons.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if (row["preset"], row["metric"]) == ("tiny_class", "acc")]

        assert (done.exit_code, wrong.exit_code) == (0, 2)
        assert len(rows) == 6
        assert {row["baseline"] for row in rows} == {"naive", "joint", "er"}
