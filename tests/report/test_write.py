"""How the files of a report are written."""

import re
import sys
from xml.etree import ElementTree

import pytest

from contilab.errors import EnvironmentFault
from contilab.report.write import write_report

TABLES = ["results.csv", "absent.csv", "comparisons.csv", "selection.json"]


class TestFiles:
    """How files are written."""

    def test_the_same_store_gives_the_same_bytes(self, store, written, tmp_path):
        """Nothing in a report depends on time, chance or place."""
        again = write_report(store.root, "tiny", tmp_path / "again")

        first = {path.name: path.read_bytes() for path in written.files}
        assert first == {path.name: path.read_bytes() for path in again.files}

    def test_it_lies_in_the_store_unless_told_otherwise(self, store):
        """The default folder is that of the study, and nothing but the files of the report is left there."""
        (store.reports_dir("tiny")).mkdir(parents=True)
        (store.reports_dir("tiny") / "report.md").write_text("old")
        done = write_report(store.root, "tiny")

        assert done.path == store.reports_dir("tiny") / "report.html"
        assert {path for path in done.directory.rglob("*") if path.is_file()} == set(done.files)
        assert (done.directory / "report.md").read_text() != "old"

    def test_runs_without_a_result_are_handed_on(self, written):
        """Whoever calls learns the names of the runs that have no result."""
        assert written.missing[-1] == "tiny_task, naive, seed 1"
        assert len(written.missing) == 4

    def test_without_the_extra_tables_are_still_written(self, store, tmp_path, monkeypatch):
        """Where none of its packages can be imported, the tables and report.md are there, and a sentence tells the way out."""
        for name in ("jinja2", "matplotlib", "scipy", "pyarrow"):
            monkeypatch.setitem(sys.modules, name, None)  # what the interpreter does for a package that is not there
        done = write_report(store.root, "tiny", tmp_path)
        text = (tmp_path / "report.md").read_text()

        sentence = "report.html and figures need jinja2 and matplotlib and scipy: pip install 'contilab[report]'"
        assert done.left_out == sentence
        assert [path.name for path in done.files] == [*TABLES, "report.md"]
        assert "one Holm family of 3 tests" in text
        assert r"- aia (fraction, Rebuffi 2017): acc\_seen\_macro, averaged over the stages" in text
        assert r"it needs scipy, which comes with contilab\[report\]" in text

    def test_a_folder_that_cannot_be_written(self, new_study, tmp_path):
        """A file where the folder should be gets a sentence with the way out."""
        store = new_study([("p", "naive", [0], {}, "task")], is_done=False)
        (tmp_path / "file").write_text("")

        with pytest.raises(EnvironmentFault, match="it cannot be written"):
            write_report(store.root, "tiny", tmp_path / "file")

    def test_labels_of_any_text(self, new_study, tmp_path):
        """Control characters are marked, letters that no font has are left alone, and long labels keep figures readable."""
        label = f"\x1b[31m \U00020000 中 {'x' * 3000} end"
        cells = [("p", "ewc", [0], {"note": note}, "task") for note in (label, "b")]
        done = write_report(new_study(cells).root, "tiny", tmp_path)
        drawn = [path.read_text() for path in done.files if path.suffix == ".svg"]

        assert {"\x1b" in path.read_text() for path in done.files if path.suffix != ".parquet"} == {False}  # which is no text
        assert {ElementTree.fromstring(svg).tag for svg in drawn} == {"{http://www.w3.org/2000/svg}svg"}  # noqa: S314  our own
        assert all(re.search("\ufffd\\[31m \U00020000 中 x+ … x* end", svg) for svg in drawn)

    def test_a_study_without_results(self, new_study):
        """Before the first result there is a report that names every run."""
        done = write_report(new_study([("p", "naive", [0, 1, 2], {}, "task")], is_done=False).root, "tiny")

        assert len(done.missing) == 3
        assert "3 of 3 runs have no result: waiting" in done.path.read_text()
