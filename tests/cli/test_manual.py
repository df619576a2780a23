"""The programs in manifests/README.md work as they stand there."""

import sys
from pathlib import Path

import numpy as np
import pytest

from contilab.metrics.contract import Evidence
from contilab.plan.enqueue import enqueue
from contilab.report.derive import chosen_metrics

MANUAL = (Path(__file__).parents[2] / "manifests" / "README.md").read_text(encoding="utf-8")
STUDY = 'name = "a"\nprofile = "smoke"\n[matrix]\npreset = ["split_digits_class"]\nmethod = ["naive"]\nseed = [0]\n'


@pytest.fixture
def written(monkeypatch, tmp_path):
    """Write a program of the manual into the working directory, by its section and kind; return its text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(section, name, kind="python", place=1):
        text = MANUAL[MANUAL.index(f"## {section}") :].split(f"```{kind}\n")[place].split("```")[0]
        (tmp_path / name).write_text(text)
        return text

    yield write
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


class TestManual:
    """Examples of things of one's own."""

    def test_model(self, written, tmp_path):
        """The model is planned with its setting by the lines of the manual."""
        written("A model of your own", "nets.py")
        settings = written("A model of your own", "overrides.toml", "toml")
        planned = enqueue(tmp_path / "store", STUDY + settings)

        assert (planned.runs, planned.data) == (1, ("digits",))

    def test_metric(self, written):
        """The metric is found by the name of the manual, and is the lowest accuracy of the last row."""
        written("A metric of your own", "late.py")
        (metric,) = chosen_metrics(["late:WORST"])

        assert "--add late:WORST" in MANUAL
        assert metric.of(Evidence("task", 2, 2, ((0.9, None), (0.4, 0.8)))) == 0.4

    def test_metric_of_features(self, written):
        """The metric reads what a run kept: of three samples two have a nearest one of their row. Other runs have a reason."""
        written("A metric of your own", "features.py", place=2)
        (metric,) = chosen_metrics(["features:NEAREST"])
        features = {"features_learned": np.array([[[0.0], [9.0]]]), "features_tested": np.array([[[1.0], [8.0], [7.0]]])}
        rows = {"rows_learned": np.array([0, 1]), "rows_tested": np.array([0, 1, 0])}
        evidence = Evidence("task", 1, 1, ((0.9,),), kept=features | rows)

        assert metric.of(evidence) == pytest.approx(2 / 3)
        assert metric.of(evidence._replace(kept=None)).reason.endswith("it needs eval.keep_features = true")
