"""contilab profile: where the time of a step goes."""

import json

import pytest

from contilab.cli.app import app
from contilab.cli.main import guarded

MANIFEST = """
name = "small"
profile = "smoke"
[matrix]
preset = ["synthetic_class"]
method = ["er"]
seed = [0, 1]
"""


@pytest.mark.slow
class TestProfile:
    """The first group of a manifest."""

    @pytest.fixture(autouse=True)
    def _own_cache(self, tmp_path, monkeypatch):
        monkeypatch.setenv("CONTILAB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def test_trace_table_and_parts(self, tmp_path, capsys):
        """The trace is written, the table and the parts are printed, and no store is made."""
        (tmp_path / "m.toml").write_text(MANIFEST)
        trace = tmp_path / "trace.json"
        code = guarded(lambda: app(["profile", str(tmp_path / "m.toml"), "train.steps=40", "--trace", str(trace)]))
        out = capsys.readouterr().out

        assert code == 0
        assert "traceEvents" in json.loads(trace.read_text())
        for part in ("2 runs of er on synthetic", "aten::", "the method (er instead of naive)", "draws from random numbers"):
            assert part in out
        assert {path.name for path in tmp_path.iterdir()} == {"m.toml", "trace.json"}
