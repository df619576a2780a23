"""A small manifest, and the program in this process."""

import pytest
import structlog

from contilab.cli.app import app
from contilab.cli.main import guarded

MANIFEST = """
name = "small"
profile = "smoke"
[matrix]
preset = ["synthetic_class"]
method = ["naive", "er"]
seed = [0, 1]
[overrides]
"model.hidden" = [4]
"benchmark.train_per_task" = 32
"benchmark.test_per_task" = 16
[sweep]
"optim.lr" = [0.1, 0.2]
"""


@pytest.fixture
def cli(capsys, monkeypatch):
    """Run a command line and return exit code, standard output and standard error."""
    monkeypatch.delenv("CONTILAB_STORE", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")  # commands set it, for the rest of this process too
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # so `run` trains in this process; tests/cli/test_processes.py has several

    def run(*words):
        code = guarded(lambda: app([str(word) for word in words]))
        structlog.reset_defaults()
        return code, *capsys.readouterr()

    return run


@pytest.fixture(scope="session")
def manifest_text():
    """The text of a small manifest."""
    return MANIFEST


@pytest.fixture
def manifest(tmp_path, manifest_text):
    """A small manifest."""
    (tmp_path / "m.toml").write_text(manifest_text)
    return tmp_path / "m.toml"
