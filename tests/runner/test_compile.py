"""Compiled training under a runner: what it took, and why it was given up, stand beside every result."""

import json
import os
import shutil
import subprocess

import pytest
import torch

from contilab.plan.enqueue import enqueue
from contilab.runner.order import Order
from contilab.runner.progress import Lines
from contilab.runner.run import run
from contilab.runner.signals import StopFlag

MANIFEST = """
name = "compiled"
profile = "smoke"
[matrix]
preset = ["synthetic_class"]
method = ["naive"]
seed = [0, 1]
[overrides]
"model.hidden" = [4]
"benchmark.train_per_task" = 32
"benchmark.test_per_task" = 16
"engine.threads" = 1
"engine.execution" = "loop"
"engine.compile" = "on"
"""


@pytest.fixture
def root(tmp_path):
    """A store with one group of two runs, to be compiled."""
    torch._dynamo.reset()
    enqueue(tmp_path / "store", MANIFEST)
    return tmp_path / "store"


def beside(root, name="env.json"):
    """Return what the files *name* of all results hold."""
    return [json.loads(path.read_text()) for path in (root / "results").glob(f"*/{name}")]


def ended(root):
    """Run in this process and return the verdict."""
    return run(Order(root), StopFlag(), Lines())


class TestEnvironment:
    """What env.json says."""

    def test_compiling_that_fails(self, root, monkeypatch):
        """The group is trained all the same, and each of its results says why it was not compiled."""

        def fails(function, **_options):
            def compiled(*_arguments):
                raise RuntimeError("the compiler is out of order\n\nand advice")

            return compiled

        monkeypatch.setattr(torch, "compile", fails)
        monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
        verdict = ended(root)
        logs = [path.read_text() for path in (root / "results").glob("*/log.jsonl")]

        assert (verdict.code, verdict.done) == (0, 2)
        assert {one["compile_fallback"] for one in beside(root)} == {"RuntimeError: the compiler is out of order"}
        assert {one["compile_seconds"] for one in beside(root)} == {0.0}
        assert {log.count("compile_failed") for log in logs} == {1}
        assert {one["circumstances"]["compile"] for one in beside(root, "MANIFEST.json")} == {"on until it failed"}

    def test_without_a_compiler(self, root, monkeypatch):
        """Where there is none the step is not compiled, and the choice says what was asked for and what is missing."""
        monkeypatch.setattr(shutil, "which", lambda _name: None)
        verdict = ended(root)
        [choice] = {json.dumps(one["compile"]): one["compile"] for one in beside(root)}.values()

        assert (verdict.code, verdict.done) == (0, 2)
        assert choice["value"] == "off"
        assert choice["reason"].startswith("on was asked for, but cannot be had: loop: ")
        assert "no C++ compiler" in choice["reason"]
        assert {one["compile_fallback"] for one in beside(root)} == {None}

    @pytest.mark.slow
    @pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
    @pytest.mark.timeout(300)
    @pytest.mark.parametrize("is_broken", [False, True])
    def test_a_real_compiler(self, root, tmp_path, program, is_broken):
        """The seconds of compiling stand there; a compiler that cannot be started is no failure either."""
        own = {"CXX": str(tmp_path / "none")} if is_broken else {}
        done = subprocess.run(
            [*program, "run", "--workers", "1", "--store", root],
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1", **own},
            capture_output=True,
            text=True,
            check=False,
        )
        found = beside(root)

        assert done.returncode == 0, done.stderr
        assert len(found) == 2
        assert {one["compile_fallback"] is not None for one in found} == {is_broken}
        assert all((one["compile_seconds"] > 0) == (not is_broken) for one in found)
        assert done.stderr.count('"compile_failed"') == (1 if is_broken else 0)
