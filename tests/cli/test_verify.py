"""`contilab verify` on a study of another protocol: nothing is hidden and nothing is claimed."""

import pytest
import structlog

from contilab.cli.app import app
from contilab.cli.main import guarded

MANIFEST = """
name = "small"
profile = "smoke"
[matrix]
preset = ["split_digits_class"]
method = ["naive", "joint"]
seed = [0, 1]
[overrides]
"model.hidden" = [8]
[method_overrides.joint]
"optim.lr" = 1e30
"""


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    """What verify prints of a study that learned other data, all seeds of joint having diverged."""
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")  # commands set it, for the rest of this process too
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "m.toml").write_text(MANIFEST)
    place = ["--store", str(tmp_path / "store")]
    for words in (
        ["plan", str(tmp_path / "m.toml")],
        ["run", "--workers", "1"],
        ["verify", "small", "--against", "vandeven2018"],
    ):
        capsys.readouterr()
        assert guarded(lambda words=words: app([*words, *place])) == 0
        structlog.reset_defaults()
    return capsys.readouterr().out


class TestVerify:
    """What it prints."""

    def test_prints_every_difference_and_gives_no_verdict(self, told):
        """Each setting that is not the published one stands with both values, and no number passes or fails, for a reason.

        The manifest leaves the precision to the machine; what is compared is what the machine took, never the word auto.
        """
        assert "  benchmark.name = split_digits, published with split_mnist" in told
        assert "  model.hidden = [8], published with [400, 400]" in told
        assert "engine.precision = auto" not in told
        assert "differ:\n  naive class 19.90\n" in told
        assert "No verdict, as no seed has an accuracy:\n  joint class 97.93\n" in told
        assert told.splitlines()[-1] == "0 pass, 0 fail, 2 give no verdict"

    def test_prints_the_protocol_before_the_numbers(self, told):
        """What differs stands above the table, each difference once: of all cells together, then what one has besides."""
        protocol, table = told.split("\nmethod ", 1)
        own = protocol[protocol.index("joint, class, ") :]

        assert "differ" in table
        assert "published with" not in table
        assert protocol.count("benchmark.name = ") == 1
        assert "\nin all of them:\n  " in protocol
        assert "  optim.lr = 1e+30, published with 0.001" in own

    def test_counts_the_seeds_behind_a_number(self, told):
        """Two seeds stand behind naive; both seeds of joint diverged, so there is no number and none of two is told."""
        rows = {line.split()[0]: line.split() for line in told.splitlines() if line.startswith(("naive  ", "joint  "))}

        assert rows["naive"][-4] == "2"
        assert rows["joint"][-7:] == ["-", "0", "of", "2", "-", "-", "-"]
