"""What is shown while groups are trained."""

import io
import json

import pytest
import structlog

from contilab.engine.watch import Progress
from contilab.runner.bars import bars
from contilab.runner.logging import configure
from contilab.runner.progress import Lines, display

HALF = Progress(task=0, tasks=2, step=5, steps=10, samples_per_second=1234.5, loss=0.25)


@pytest.fixture
def clock():
    """A clock that stands until it is set."""

    class Clock:
        now = 0.0

        def __call__(self):
            return self.now

    return Clock()


class TestLines:
    """Progress for machines."""

    def test_a_line_now_and_then(self, clock, capsys):
        """One line per interval, with the group, the counts and the speed."""
        configure()
        lines = Lines(seconds=10, clock=clock)
        lines.runs(done=3, wanted=8)
        lines.begin("synthetic class er", 4)
        lines.step(HALF)
        clock.now = 10.0
        lines.step(HALF)
        lines.step(HALF)
        lines.end()
        structlog.reset_defaults()

        (line,) = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        assert line["event"] == "progress"
        assert (line["runs_done"], line["runs_wanted"], line["members"], line["step"], line["loss"]) == (3, 8, 4, 5, 0.25)

    def test_of_workers(self, clock, capsys):
        """Lines of several groups at once carry the number of the worker."""
        configure()
        lines = Lines(seconds=10, clock=clock).beside(3)
        clock.now = 10.0
        lines.step(HALF)
        structlog.reset_defaults()

        assert json.loads(capsys.readouterr().err)["worker"] == 3

    def test_chosen_without_terminal(self):
        """Where standard error is no terminal, lines are chosen."""
        with display() as shown:
            assert isinstance(shown, Lines)


class TestBars:
    """Progress for people."""

    @pytest.mark.parametrize(("loss", "text"), [(0.25, "loss 0.25"), (None, "diverged")])
    def test_two_bars(self, loss, text, monkeypatch):
        """One bar counts runs, the other one steps, with task, loss and speed."""
        file = io.StringIO()
        monkeypatch.setenv("COLUMNS", "100")
        with bars(color=False, file=file) as shown:
            shown.runs(done=3, wanted=8)
            shown.begin("synthetic class er", 4)
            shown.step(HALF._replace(loss=loss))
            shown._rich.refresh()
            shown.end()

        for part in ("3/8", "synthetic class er x4", "5/10", "task 1/2", text, "1.2k samples/s"):
            assert part in file.getvalue()

    def test_of_workers(self, monkeypatch):
        """Several groups at once have a bar each, below one for all runs."""
        file = io.StringIO()
        monkeypatch.setenv("COLUMNS", "100")
        with bars(color=False, file=file) as shown:
            for worker in (0, 1):
                beside = shown.beside(worker)
                beside.runs(done=3, wanted=8)
                beside.begin(f"synthetic class {worker}", 4)
                beside.step(HALF)
            file.truncate(0)
            shown._rich.refresh()
            last = file.getvalue()

        assert (last.count("runs"), last.count("synthetic class"), last.count("5/10")) == (1, 2, 2)

    @pytest.mark.parametrize("width", [60, 80, 120])
    def test_numbers_are_whole(self, width, monkeypatch):
        """On a narrow terminal the counts stand whole in one line each; what gives way is the bar and the facts."""
        file = io.StringIO()
        monkeypatch.setenv("COLUMNS", str(width))
        with bars(color=False, file=file) as shown:
            shown.runs(done=148, wanted=1296)
            shown.begin("split_digits domain naive", 8)
            shown.step(HALF._replace(step=1234, steps=1310))
            shown._rich.refresh()

        lines = [line for line in file.getvalue().splitlines() if "/1310" in line or "/1296" in line]
        assert any(" 148/1296 " in line for line in lines)
        assert all("task 1/2" in line for line in lines if "/1310" in line)
        assert any("1234/1310" in line for line in lines)

    def test_chosen_on_a_terminal(self, monkeypatch):
        """Where a person looks, bars are chosen."""
        monkeypatch.setattr("contilab.runner.progress.is_readable", lambda: True)
        with display() as shown:
            assert not isinstance(shown, Lines)
