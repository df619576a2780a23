"""A study as one archive, and its check without the store."""

import hashlib
import json
import shutil
import zipfile

import pytest
from typer.testing import CliRunner

from contilab.cli.app import app
from contilab.errors import EnvironmentFault, InputError
from contilab.report.bundle import write_bundle
from contilab.report.bundle_check import verify_bundle

CELLS = [
    ("p", "naive", [0, 1], {}, "task"),
    ("p", "ewc", [0, 1], {"strength": 1.0}, "task"),
    ("p", "ewc", [0, 1], {"strength": 9.0}, "task"),
]


@pytest.fixture(scope="module")
def packed(store, tmp_path_factory):
    """The bundle of the study with all kinds of trouble."""
    return write_bundle(store, "tiny", tmp_path_factory.mktemp("bundle") / "tiny.zip")


def changed(packed, path, name, change):
    """Copy the bundle to *path* with the content of *name* changed, everything else as it was; None drops the file."""
    with zipfile.ZipFile(packed.path) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            data = change(data) if entry.filename == name else data
            if data is not None:
                new.writestr(entry, data)
    return path


def resealed(packed, path, name, change):
    """As `changed`, with the index made to fit: what a forger would do."""
    with zipfile.ZipFile(packed.path) as old:
        data = change(old.read(name))

    def index(text):
        table = json.loads(text)
        table["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        return json.dumps(table).encode()

    changed(packed, path.with_suffix(".half"), name, lambda _: data)
    return changed(packed._replace(path=path.with_suffix(".half")), path, "BUNDLE.json", index)


class TestPacking:
    """What `bundle` makes."""

    def test_it_verifies_elsewhere(self, packed, tmp_path):
        """On another folder, without the store, every digest fits and every table is computed again."""
        copy = shutil.copy(packed.path, tmp_path / "copy.zip")
        found = verify_bundle(copy)

        assert (found.study, found.faults) == ("tiny", ())
        names = ("results.csv", "absent.csv", "comparisons.csv", "selection.json")
        assert found.tables == tuple(f"report/{name}" for name in names)

    def test_the_same_study_gives_the_same_bytes(self, packed, store, tmp_path):
        """An archive depends on its content only, not on time or place."""
        again = write_bundle(store, "tiny", tmp_path / "again.zip")

        assert again.sha256 == packed.sha256

    def test_it_is_complete(self, packed):
        """Manifest, settings, results, report and their digests are inside; damaged results stay out and are named."""
        with zipfile.ZipFile(packed.path) as archive:
            names = archive.namelist()

        assert {"manifest.toml", "BUNDLE.json", "report/report.html", "store/format.json"} <= set(names)
        assert sum(name.endswith("/record.jsonl") for name in names) == packed.results == 13
        assert len(packed.left_out) == 4

    def test_a_place_that_cannot_be_written(self, new_study, tmp_path):
        """A file where the folder should be gets a sentence, and nothing is left behind."""
        (tmp_path / "file").write_text("")
        store = new_study([("p", "naive", [0], {}, "task")])

        with pytest.raises(EnvironmentFault, match="it cannot be written"):
            write_bundle(store, "tiny", tmp_path / "file" / "a.zip")


class TestChecking:
    """What `verify-bundle` finds."""

    @pytest.mark.parametrize("name", ["manifest.toml", "report/report.html", "report/results.csv", "store/format.json"])
    def test_a_changed_byte_is_named(self, packed, tmp_path, name):
        """A file that is not what was packed is named, and only that one."""
        path = changed(packed, tmp_path / "a.zip", name, lambda data: bytes([data[0] ^ 1]) + data[1:])

        assert verify_bundle(path).faults == (f"{name}: it is not what was packed",)

    def test_a_byte_of_the_archive_is_named(self, packed, tmp_path):
        """A bit that flips inside the archive is found, with the file that it lies in."""
        data = bytearray(packed.path.read_bytes())
        with zipfile.ZipFile(packed.path) as archive:
            entry = max(archive.infolist(), key=lambda one: one.compress_size)
        data[entry.header_offset + 30 + len(entry.filename) + entry.compress_size // 2] ^= 4
        (tmp_path / "a.zip").write_bytes(data)
        [fault] = verify_bundle(tmp_path / "a.zip").faults

        assert fault.startswith(f"{entry.filename}: it ")

    def test_missing_and_added_files(self, packed, tmp_path):
        """A file that is gone or was not there is named."""
        path = changed(packed, tmp_path / "a.zip", "report/report.md", lambda _: None)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("store/extra", "x")

        assert verify_bundle(path).faults == ("report/report.md: it is missing", "store/extra: it was added")

    def test_a_forged_table_does_not_compute(self, packed, tmp_path):
        """A number that was changed together with its digest differs from what the records give."""
        path = resealed(
            packed, tmp_path / "a.zip", "report/results.csv", lambda data: data.replace(b",0.35225,", b",0.95225,", 1)
        )
        found = verify_bundle(path).faults

        assert len(found) == 1
        assert found[0].startswith("report/results.csv: line 2, ")
        assert "it says 0.95225" in found[0]

    def test_a_forged_test_does_not_compute(self, packed, tmp_path):
        """So does a p value."""
        path = resealed(
            packed, tmp_path / "a.zip", "report/comparisons.csv", lambda data: data.replace(b",0.25,", b",0.01,", 1)
        )

        assert "computed again 0.25" in verify_bundle(path).faults[0]

    def test_a_forged_result_is_damaged(self, packed, tmp_path):
        """A record that was changed together with the index fails the digests of its own result."""
        with zipfile.ZipFile(packed.path) as archive:
            name = next(name for name in archive.namelist() if name.endswith("/record.jsonl"))
        path = resealed(packed, tmp_path / "a.zip", name, lambda data: data.replace(b"0.98", b"0.99"))

        assert any("report/results.csv: " in fault for fault in verify_bundle(path).faults)

    def test_a_forged_run_has_another_address(self, packed, tmp_path):
        """Settings that were changed do not fit the address of their run."""
        with zipfile.ZipFile(packed.path) as archive:
            name = next(name for name in archive.namelist() if name.startswith("store/runs/"))
        path = resealed(packed, tmp_path / "a.zip", name, lambda data: data.replace(b'"batch":64', b'"batch":32'))

        [fault] = verify_bundle(path).faults

        assert fault == f"{name}: this version cannot read the file: it holds another run than its name says"

    def test_names_stay_inside(self, packed, tmp_path):
        """A name that leaves the folder is a fault, and nothing is unpacked."""

        def index(text):
            table = json.loads(text)
            table["files"]["../evil"] = {"sha256": "0", "size": 1}
            return json.dumps(table).encode()

        path = changed(packed, tmp_path / "a.zip", "BUNDLE.json", index)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("../evil", "x")

        assert "../evil: it leaves the folder of the bundle" in verify_bundle(path).faults
        assert not (tmp_path.parent / "evil").exists()

    @pytest.mark.parametrize("content", [b"", b"no zip", None])
    def test_what_is_no_bundle(self, tmp_path, content):
        """Another file, or none, gets a sentence."""
        if content is not None:
            (tmp_path / "a.zip").write_bytes(content)

        with pytest.raises(InputError, match="it is no bundle"):
            verify_bundle(tmp_path / "a.zip")

    def test_another_zip_file(self, tmp_path):
        """A zip file without the index of a bundle is said to have none."""
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            archive.writestr("other.txt", "x")

        with pytest.raises(InputError, match=r"it is no bundle: it has no BUNDLE\.json"):
            verify_bundle(tmp_path / "a.zip")

    def test_no_file(self, tmp_path):
        """Where there is no file, the reason stands in words, without the number of the error."""
        with pytest.raises(InputError, match="it is no bundle: no such file or directory"):
            verify_bundle(tmp_path / "a.zip")

    def test_another_format(self, packed, tmp_path):
        """A bundle of another version is refused with its format."""
        path = changed(packed, tmp_path / "a.zip", "BUNDLE.json", lambda data: data.replace(b"bundle/1", b"bundle/9"))

        with pytest.raises(InputError, match=r"this version reads 'contilab\.bundle/1'"):
            verify_bundle(path)


class TestCommands:
    """The same, as commands."""

    def test_bundle_and_verify(self, new_study, tmp_path):
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

    def test_report_formats(self, new_study, tmp_path):
        """`--format latex` writes tables.tex beside the page and prints its path."""
        store = new_study(CELLS)
        out, baseline = tmp_path / "out", "ewc strength=1.0"
        words = ["report", "tiny", "--store", str(store.root), "--out", str(out), "--format", "latex", "--baseline", baseline]
        done = CliRunner().invoke(app, words)

        assert done.stdout == f"report: {out / 'tables.tex'}\n"
        assert r"acc, each method minus ewc strength=1.0" in (out / "tables.tex").read_text()
