"""The commands that measure, report, pack and check a study: what they print, and their exit codes."""

import zipfile

import pytest
from typer.testing import CliRunner

from contilab.cli.app import app
from contilab.metrics.table import METRICS, metric

NAIVE = ("p", "naive", [0, 1], {}, "task")
CELLS = [NAIVE, ("p", "ewc", [0, 1], {"strength": 1.0}, "task"), ("p", "ewc", [0, 1], {"strength": 9.0}, "task")]


class TestCommands:
    """contilab metrics, report, bundle and verify-bundle."""

    def test_bundle_and_verify(self, new_study, tmp_path, no_figures):
        """Packing prints the file and its digest; checking exits with 0, and with 3 once a byte differs."""
        store, file = new_study(CELLS), str(tmp_path / "a.zip")
        packed = CliRunner().invoke(app, ["bundle", "tiny", "--store", str(store.root), "--out", file])
        right = CliRunner().invoke(app, ["verify-bundle", file])
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr("x", "y")
        wrong = CliRunner().invoke(app, ["verify-bundle", file])

        assert (packed.exit_code, right.exit_code, wrong.exit_code) == (0, 0, 3)
        assert f"bundle: {file}" in packed.stdout
        assert "computed again and equal: report/results.csv" in right.stdout
        assert wrong.stdout == "fault: x: it was added\n"

    def test_metrics(self, new_study):
        """Values and reasons are counted per metric."""
        store = new_study([("p", "naive", [0, 1], {}, "class")])
        done = CliRunner().invoke(app, ["metrics", "tiny", "--add", "fwt", "--add", "acc", "--store", str(store.root)])

        assert done.exit_code == 0
        assert "fwt  0 values  2 absent: a task's classes are masked before it is learned" in done.stdout
        assert "acc  2 values" in done.stdout

    def test_metrics_of_a_tier(self, new_study):
        """`--tier` computes every metric of the tier, in the order of the menu; what was not recorded says what it needs."""
        store = new_study([NAIVE])
        done = CliRunner().invoke(app, ["metrics", "tiny", "--tier", "full", "--store", str(store.root)])
        lines = done.stdout.splitlines()

        assert done.exit_code == 0
        assert [line.split()[0] for line in lines] == [name for name in METRICS if metric(name).tier == "full"]
        assert all("0 values  2 absent: " in line and line.endswith("it needs eval.tier full") for line in lines)

    def test_report_beside_another_study(self, new_study, add_second, tmp_path, no_figures):
        """`--compare` sets each cell beside the same cell of another study of the store."""
        store = new_study(CELLS[:2])
        add_second(store, [("p", "ewc", [0, 1], {"strength": 5.0}, "task")])
        words = ["report", "tiny", "--compare", "second", "--store", str(store.root), "--out", str(tmp_path / "out")]
        done = CliRunner().invoke(app, words)
        text = (tmp_path / "out" / "report.md").read_text()

        assert (done.exit_code, done.stdout) == (0, f"report: {tmp_path / 'out' / 'report.html'}\n")
        assert "## Compared with second: p" in text
        assert "method.strength: 1.0 here, 5.0 there" in text.replace("\\", "")

    def test_report_formats(self, new_study, tmp_path, no_figures):
        """`--format latex` writes tables.tex beside the page and prints its path."""
        store = new_study(CELLS)
        out, baseline = tmp_path / "out", "ewc strength=1.0"
        words = ["report", "tiny", "--store", str(store.root), "--out", str(out), "--format", "latex", "--baseline", baseline]
        done = CliRunner().invoke(app, words)

        assert done.stdout == f"report: {out / 'tables.tex'}\n"
        assert r"acc, each method minus ewc strength=1.0" in (out / "tables.tex").read_text()

    @pytest.mark.parametrize(
        ("first", "is_ours"), [("% old: made by contilab report; needs x", True), ("% Tables that were made by hand", False)]
    )
    def test_tables_of_an_earlier_report_do_not_grow_old(self, new_study, tmp_path, no_figures, first, is_ours):
        """A tables.tex of an earlier report is written again with the others, though the page is what is printed.

        One that somebody wrote stays.
        """
        (tmp_path / "tables.tex").write_text(f"{first}\nold")
        done = CliRunner().invoke(app, ["report", "tiny", "--store", str(new_study(CELLS).root), "--out", str(tmp_path)])
        text = (tmp_path / "tables.tex").read_text()

        assert done.stdout == f"report: {tmp_path / 'report.html'}\n"
        assert ("acc, each method minus naive" in text, text == f"{first}\nold") == (is_ours, not is_ours)
