"""`contilab verify` on a study of another protocol: nothing is hidden and nothing is claimed."""

import pytest
import structlog

from contilab.cli.app import app
from contilab.cli.main import guarded
from contilab.cli.verify import _count
from contilab.report.published.table import Cell
from contilab.report.published.verdict import Ours, Verdict

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


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The store of a study that learned other data, all seeds of joint having diverged."""
    place = tmp_path_factory.mktemp("verify")
    (place / "m.toml").write_text(MANIFEST)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")  # commands set it, for the rest of this process too
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        for words in (["plan", str(place / "m.toml")], ["run", "--workers", "1"]):
            assert guarded(lambda words=words: app([*words, "--store", str(place / "store")])) == 0
            structlog.reset_defaults()
    return str(place / "store")


@pytest.fixture
def verified(store, monkeypatch, capsys):
    """A function that compares the study with tables and returns what is printed."""
    monkeypatch.delenv("COLUMNS", raising=False)

    def verify(*tables):
        assert guarded(lambda: app(["verify", "small", *(f"--against={table}" for table in tables), "--store", store])) == 0
        return capsys.readouterr().out

    return verify


@pytest.fixture
def told(verified):
    """What is printed of one table."""
    return verified("vandeven2018")


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
        assert told.splitlines()[-1].startswith("0 pass, 0 fail, 2 give no verdict")
        assert "2 of 4 runs have no accuracy: contilab status small says why" in told

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

    def test_several_tables(self, verified, told):
        """Each table that is named is compared with, once, one below the other."""
        assert verified("vandeven2018", "vandeven_short", "vandeven2018") == f"{told}\n\n{verified('vandeven_short')}"

    def test_narrow_terminal(self, verified, told, monkeypatch):
        """Lines are as long as the terminal is wide, and nothing of what they say is lost."""
        monkeypatch.setenv("COLUMNS", "80")  # digests stay whole
        narrow = verified("vandeven2018")

        assert max(map(len, told.splitlines())) > 80
        assert [line for line in narrow.splitlines() if len(line) > 80] == []
        assert sorted("".join(narrow.split())) == sorted("".join(told.split()))


class TestNothing:
    """Where there is nothing to compare."""

    @pytest.mark.parametrize(
        ("table", "words"),
        [("vandeven2018", "no run that"), ("smnist_1epoch_short", "has no cell of the methods and scenarios")],
        ids=["no results", "no cell"],
    )
    def test_is_an_error(self, tmp_path, capsys, table, words):
        """A study without results, and one that a table has no cell for, end it with exit code 2 and a sentence."""
        scenario = "class" if table == "vandeven2018" else "task"
        (tmp_path / "m.toml").write_text(MANIFEST.replace("split_digits_class", f"split_digits_{scenario}"))
        place = ["--store", str(tmp_path / "store")]
        assert guarded(lambda: app(["plan", str(tmp_path / "m.toml"), *place])) == 0
        code = guarded(lambda: app(["verify", "small", "--against", table, *place]))

        assert code == 2
        assert words in capsys.readouterr().err


class TestCount:
    """The last line."""

    def test_undecided_numbers_that_are_far_off_are_counted(self):
        """A number beyond what is allowed is told of, though it decides nothing; a single seed allows nothing to be said."""
        cell = Cell("er", "class", 88.79, 0.2, {})
        found = [
            Verdict(cell, Ours("", {}, values, len(values)), (), None, "it is recalled")
            for values in ((70.0, 71.0), (88.0, 90.0), (50.0,))
        ]

        assert _count(found) == "0 pass, 0 fail, 3 give no verdict; 1 of these are farther off than is allowed"
