"""Every method of the catalog in one study on real digits, through the commands: plan, run, report."""

import csv
import os
import subprocess
import tomllib
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import pytest

from contilab import catalog

MANIFEST = Path(__file__).parents[2] / "manifests" / "all_methods.toml"
CHANCE = {"task": 0.5, "domain": 0.5, "class": 0.1}
BOUNDS = {"joint", "cumulative"}  # both have the data of all tasks
REPLAY = {"er", "er_ace", "der", "derpp", "gem", "gdumb", "icarl"}


@pytest.fixture(scope="module")
def command(program):
    """A function that runs the program, which has to succeed."""

    def run(*words):
        environ = {**os.environ, "OMP_NUM_THREADS": "1"}  # two processes share two cores
        done = subprocess.run([*program, *map(str, words)], capture_output=True, text=True, check=False, env=environ)
        assert done.returncode == 0, done.stderr[-2000:]

    return run


@pytest.fixture(scope="module")
def rows(command, tmp_path_factory):
    """The rows of results.csv."""
    place = tmp_path_factory.mktemp("all")
    command("plan", MANIFEST, "--store", place / "store")
    command("run", "--workers", "2", "--store", place / "store")
    command("report", "all_methods", "--store", place / "store", "--out", place / "report")
    with (place / "report" / "results.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def means(rows):
    """The mean accuracy over seeds, by scenario and method."""
    found = defaultdict(list)
    for row in rows:
        found[row["scenario"], row["method"]].append(float(row["acc"]))
    return {cell: fmean(values) for cell, values in found.items()}


class TestManifest:
    """What the study holds."""

    def test_has_every_method_of_the_catalog(self):
        """A new method has to join it, in all three scenarios, with two seeds."""
        matrix = tomllib.loads(MANIFEST.read_text(encoding="utf-8"))["matrix"]

        assert sorted(matrix["method"]) == list(catalog.STRATEGIES)
        assert {preset.removeprefix("split_digits_") for preset in matrix["preset"]} == set(CHANCE)
        assert matrix["seed"] == [0, 1]


@pytest.mark.slow
@pytest.mark.timeout(900)  # the first test trains them all: one to two minutes on two cores, more beside other work
class TestStudy:
    """What comes out of it."""

    def test_every_run_has_finished(self, rows):
        """All 88 are done and none diverged: 15 methods, two seeds, three scenarios, two of icarl."""
        assert len(rows) == 2 * (3 * len(catalog.STRATEGIES) - 1)
        assert {row["state"] for row in rows} == {"finished"}

    @pytest.mark.parametrize("scenario", CHANCE)
    def test_every_method_is_above_chance(self, means, scenario):
        """Each mean is at least half a tenth above guessing."""
        low = {method: mean for (of, method), mean in means.items() if of == scenario and mean < CHANCE[scenario] + 0.05}

        assert low == {}

    @pytest.mark.parametrize("scenario", CHANCE)
    def test_joint_training_is_best(self, means, scenario):
        """No method that sees tasks one by one is above joint training by more than four of 360 test samples."""
        ours = {method: mean for (of, method), mean in means.items() if of == scenario and method not in BOUNDS}

        assert max(ours.values()) <= means[scenario, "joint"] + 0.011

    def test_only_replay_keeps_classes_apart(self, means):
        """Class-incremental, methods that replay are above 0.4; those without a memory stay near the last task's 0.2."""
        without = {method for of, method in means if of == "class"} - REPLAY - BOUNDS - {"agem"}

        assert min(means["class", method] for method in REPLAY) > 0.4
        assert max(means["class", method] for method in without) < 0.25
