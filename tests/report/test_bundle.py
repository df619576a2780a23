"""A study as one archive, and its check without the store."""

import errno
import hashlib
import json
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from contilab.errors import EnvironmentFault, InputError
from contilab.metrics.contract import Metric
from contilab.report.bundle import sealed, write_bundle
from contilab.report.bundle_check import verify_bundle
from contilab.report.derive import derive

CELLS = [("p", "naive", [0, 1], {}, "task"), ("p", "ewc", [0, 1], {"strength": 1.0}, "task")]
PAPERS = {"env.json": b'{"host": {"system": "Linux"}}\n', "config.toml": b"seed = 0\n", "log.jsonl": b'{"event": "run_done"}\n'}
KINDS = [
    *("manifest.toml", "store/format.json", "store/studies/tiny/1.json", "store/runs/*.json"),
    *("store/results/*/MANIFEST.json", "store/results/*/record.jsonl", "store/results/*/tensors.safetensors"),
    *(
        "store/results/*/kept.safetensors",
        "store/results/*/env.json",
        "store/results/*/config.toml",
        "store/results/*/log.jsonl",
        "store/derived/*/own.1.json",
    ),
    *("report/results.csv", "report/absent.csv", "report/comparisons.csv", "report/selection.json", "report/results.parquet"),
    *("report/figures/*.svg", "report/report.md", "report/report.html"),
]


@pytest.fixture(scope="module")
def packed(store, tmp_path_factory, undrawn):
    """The bundle of the study with all kinds of trouble, without figures."""
    with undrawn():
        return write_bundle(store, "tiny", tmp_path_factory.mktemp("bundle") / "tiny.zip")


def kind_of(name):
    """Return which kind of file *name* is: addresses and names of figures do not matter."""
    return re.sub(r"[0-9a-f]{64}|(?<=figures/)[^.]+", "*", name)


def with_features(_, outcome):
    """Return *outcome* with what the tier extended measures of features and parameters, and with features that are kept."""
    ones = {name: np.ones(4) for name in ("cka", "effective_rank", "drift", "drift_relative")}
    measured = {**ones, "probe_accuracy": np.full((4, 4), 0.75), "dormant_share": np.zeros((4, 1))}
    return outcome._replace(tensors={**outcome.tensors, **measured}, kept={"features_tested": np.ones((4, 8, 2))})


@pytest.fixture(scope="module")
def whole(new_study, tmp_path_factory):
    """The bundle of a study with every kind of file: papers of a runner, tensors of a tier, a metric of the user."""
    store = new_study(CELLS, change=with_features, papers=lambda _: PAPERS)
    derive(store, "tiny", [Metric("own", lambda _: 0.5, "one half")])
    return write_bundle(store, "tiny", tmp_path_factory.mktemp("bundle") / "whole.zip")


@pytest.fixture(scope="module")
def kinds(whole):
    """The first file of each kind in it."""
    with zipfile.ZipFile(whole.path) as archive:
        return {kind_of(name): name for name in reversed(archive.namelist()) if name != "BUNDLE.json"}


def changed(packed, path, name, change):
    """Copy the bundle to *path* with the content of *name* changed, everything else as it was; None drops the file."""
    with zipfile.ZipFile(packed.path) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            data = change(data) if entry.filename == name else data
            if data is not None:
                new.writestr(entry, data, zipfile.ZIP_STORED)  # deflating it again would take longer than the check
    return path


def resealed(packed, path, name, change):
    """As `changed`, with the index made to fit: what a forger would do."""
    with zipfile.ZipFile(packed.path) as old:
        data = change(old.read(name))

    def index(text):
        table = json.loads(text)
        table["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        return sealed(table)

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

    def test_the_same_study_gives_the_same_bytes(self, packed, store, tmp_path, no_figures):
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

    def test_a_place_that_cannot_be_written(self, new_study, tmp_path, no_figures):
        """A file where the folder should be gets a sentence, and nothing is left behind."""
        (tmp_path / "file").write_text("")
        store = new_study([("p", "naive", [0], {}, "task")])

        with pytest.raises(EnvironmentFault, match="it cannot be written"):
            write_bundle(store, "tiny", tmp_path / "file" / "a.zip")


class TestChecking:
    """What `verify-bundle` finds."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_changed_byte_is_named(self, whole, kinds, tmp_path, kind):
        """A file that is not what was packed is named, whatever it is, and only that one."""
        if kind not in kinds and kind.endswith("parquet"):
            pytest.skip("pyarrow is not installed")
        path = changed(whole, tmp_path / "a.zip", kinds[kind], lambda data: bytes([data[0] ^ 1]) + data[1:])

        assert verify_bundle(path).faults == (f"{kinds[kind]}: it is not what was packed",)

    def test_no_kind_of_file_is_left_out(self, whole, kinds):
        """The kinds of the test above are all that a bundle holds, and undisturbed it verifies, derived metrics and all."""
        assert set(kinds) - {"report/results.parquet"} == set(KINDS) - {"report/results.parquet"}
        assert verify_bundle(whole.path)[-2:] == ((), ())  # no faults, and all is compared

    @pytest.mark.parametrize(
        ("old", "new"), [(b'"contilab": "', b'"contilab": "9'), (b'"plan": 1', b'"plan": 2'), (b" ", b"\t")]
    )
    def test_a_changed_byte_of_the_index_is_named(self, whole, tmp_path, old, new):
        """The index has a digest of itself, so what no file depends on cannot change in it unseen either."""
        path = changed(whole, tmp_path / "a.zip", "BUNDLE.json", lambda data: data.replace(old, new, 1))

        assert verify_bundle(path).faults == ("BUNDLE.json: it is not what was packed",)

    def test_a_forged_metric_of_the_user_does_not_compute(self, whole, kinds, tmp_path):
        """A value that was computed later and changed together with its digest is not the one of the table."""
        name = kinds["store/derived/*/own.1.json"]
        path = resealed(whole, tmp_path / "a.zip", name, lambda data: data.replace(b'"value":0.5', b'"value":0.7'))
        [fault] = verify_bundle(path).faults

        assert fault.startswith("report/results.csv: line ")
        assert fault.endswith(", own: it says 0.5, computed again 0.7")

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

    def test_no_room_to_unpack(self, packed, tmp_path, monkeypatch):
        """A full disk, or no folder for temporary files, is no fault of the bundle."""

        def full(_, __):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(Path, "write_bytes", full)
        with pytest.raises(EnvironmentFault, match="the bundle cannot be unpacked there: no space left on device"):
            verify_bundle(packed.path)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
        with pytest.raises(EnvironmentFault, match="TMPDIR: the bundle cannot be unpacked there: no such file or directory"):
            verify_bundle(packed.path)

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
            return sealed(table)

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

    @pytest.mark.parametrize("text", [b"", b"[]", b"z\n", b'{"format": "contilab.bundle/1", "files": {}, "metrics": []}'])
    def test_an_index_that_is_none(self, packed, tmp_path, text):
        """An index that is damaged beyond reading is named, and is not taken for one of another version."""
        path = changed(packed, tmp_path / "a.zip", "BUNDLE.json", lambda _: text)

        with pytest.raises(InputError, match=r"BUNDLE\.json cannot be read"):
            verify_bundle(path)
