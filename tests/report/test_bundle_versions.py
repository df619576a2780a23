"""A bundle of an earlier or a later version of contilab, checked by this one."""

import json
import zipfile

import pytest
from typer.testing import CliRunner

from contilab.cli.app import app
from contilab.report.bundle import sealed, write_bundle

SAID = "not compared, since metrics have another version here: "
CELLS = [("p", "naive", [0, 1], {}, "task"), ("p", "ewc", [0, 1], {"strength": 1.0}, "task")]


def before_versions(index):
    """Return *index* as it was before bundles kept the versions of metrics."""
    return {name: value for name, value in index.items() if name != "metrics"}


def raised(index):
    """Return *index* of a version that chooses variants by another formula, and has lost one metric that this one has."""
    metrics = {**index["metrics"], "acc_validation": 2}
    del metrics["wf_10"]
    return {**index, "metrics": metrics}


class TestVersions:
    """What `verify-bundle` compares of it, and that it says what not."""

    @pytest.mark.parametrize(
        ("change", "not_compared"),
        [
            (lambda index: index, ""),
            (before_versions, "recovery_steps, never_recovered_share"),
            (raised, "acc_validation, wf_10, report/comparisons.csv, report/selection.json"),
        ],
    )
    def test_an_honest_bundle_verifies(self, new_study, tmp_path, no_figures, change, not_compared):
        """Metrics that have another version here are named in one line, and what is made of them is no fault."""
        packed = write_bundle(new_study(CELLS), "tiny", tmp_path / "a.zip").path
        with zipfile.ZipFile(packed) as old, zipfile.ZipFile(tmp_path / "b.zip", "w") as new:
            for entry in old.infolist():
                data = old.read(entry)
                data = sealed(change(json.loads(data))) if entry.filename == "BUNDLE.json" else data
                new.writestr(entry, data, zipfile.ZIP_STORED)
        done = CliRunner().invoke(app, ["verify-bundle", str(tmp_path / "b.zip")])
        lines = [line.removeprefix(SAID) for line in done.stdout.splitlines() if line.startswith(SAID)]

        assert (done.exit_code, lines) == (0, [not_compared] if not_compared else [])
