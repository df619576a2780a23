"""Claims about planners that meet, and planners that die, as real processes."""

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from contilab.disk.failpoint import VARIABLE
from contilab.plan.enqueue import enqueue

MANIFEST = """
name = "many"
profile = "smoke"
[matrix]
preset = ["synthetic_class", "synthetic_task"]
method = ["naive", "er"]
seed = [0, 1, 2]
[overrides]
"engine.max_members" = 1
"""
# format.json, then all runs and all groups in one batch each, then the study: four passages of each place
Planner = Callable[..., "subprocess.Popen[str]"]
PASSAGES = [(place, k) for place in ("put_new.written", "put_new.linked") for k in (1, 2, 3, 4)]


@pytest.fixture
def planner(tmp_path: Path, program: list[str]) -> Planner:
    """A function that starts to plan into one store."""
    manifest = tmp_path / "many.toml"
    manifest.write_text(MANIFEST)
    command = [*program, "plan", str(manifest), "--store", str(tmp_path / "store"), "--ttl", "60"]

    def start(failpoint: str = "") -> "subprocess.Popen[str]":
        environ = {**os.environ, VARIABLE: failpoint}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)

    return start


def files(root: Path) -> dict[str, bytes]:
    """Return every file of a store with its bytes; what was left behind half-done too."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def names(root: Path) -> dict[str, bytes]:
    """Return every file that has its final name."""
    return {name: data for name, data in files(root).items() if not re.search(r"(^|/)\.tmp-", name)}


@pytest.fixture
def expected(tmp_path: Path) -> dict[str, bytes]:
    """The files of a store that one planner wrote undisturbed."""
    enqueue(tmp_path / "undisturbed", MANIFEST, ttl_s=60.0)
    return files(tmp_path / "undisturbed")


class TestTwoPlanners:
    """However planners meet, the store holds what one of them would have written."""

    def test_at_once(self, tmp_path: Path, planner: Planner, expected: dict[str, bytes]) -> None:
        """Two planners with the same manifest at once all succeed, and the store is the one that a single planner writes."""
        planners = [planner() for _ in range(2)]
        told = [one.communicate(timeout=60) for one in planners]

        assert [(one.returncode, err) for one, (_, err) in zip(planners, told, strict=True)] == [(0, "")] * 2
        assert files(tmp_path / "store") == expected

    @pytest.mark.slow
    @pytest.mark.parametrize(("place", "k"), PASSAGES)
    def test_killed(self, tmp_path: Path, planner: Planner, expected: dict[str, bytes], place: str, k: int) -> None:
        """A planner that is killed at any of its failpoints leaves a store that the next plan completes."""
        victim = planner(f"{place}:KILL:{k}")
        victim.communicate(timeout=60)
        again = planner()
        _, told = again.communicate(timeout=60)

        assert victim.returncode == -signal.SIGKILL
        assert (again.returncode, told) == (0, "")
        assert names(tmp_path / "store") == expected
