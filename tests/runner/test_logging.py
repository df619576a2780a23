"""Logs on standard error, and the part of them that stays with each result."""

import errno
import json
from types import SimpleNamespace

import pytest
import structlog

from contilab.runner.logging import GroupLog, configure, is_readable


@pytest.fixture(autouse=True)
def _structlog_as_before():
    yield
    structlog.reset_defaults()


class Terminal:
    """Standard error as if a person looked at it."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        """Say yes."""
        return True

    def write(self, text: str) -> int:
        """Keep *text*."""
        self.text += text
        return len(text)

    def flush(self) -> None:
        """Do nothing."""


@pytest.fixture
def terminal(monkeypatch):
    """A terminal in place of standard error."""
    shown = Terminal()
    monkeypatch.setattr("contilab.runner.logging.sys", SimpleNamespace(stderr=shown))  # pytest swaps the real one per phase
    return shown


class TestConfigure:
    """Where logs go and in which form."""

    def test_json_lines_when_piped(self, capsys):
        """Without a terminal each event is one JSON object on standard error, and standard output stays empty."""
        configure()
        structlog.get_logger().info("group_started", runs=3)
        captured = capsys.readouterr()
        line = json.loads(captured.err)

        assert captured.out == ""
        assert (line["event"], line["runs"], line["level"]) == ("group_started", 3, "info")
        assert line["timestamp"].endswith("Z")

    def test_readable_on_a_terminal(self, terminal):
        """On a terminal an event is one readable line, in colour."""
        configure({})
        structlog.get_logger().info("group_started", runs=3)

        assert terminal.text.count("\n") == 1
        assert "group_started" in terminal.text
        assert "\x1b[" in terminal.text

    def test_no_color(self, terminal):
        """NO_COLOR is respected."""
        configure({"NO_COLOR": "1"})
        structlog.get_logger().info("group_started", runs=3)

        assert "runs=3" in terminal.text
        assert "\x1b[" not in terminal.text

    def test_dumb_terminal(self, terminal):
        """A terminal that cannot move its cursor gets lines, no bars."""
        assert is_readable({})
        assert not is_readable({"TERM": "dumb"})


class TestCurrentStderr:
    """Standard error that may be gone."""

    @pytest.mark.parametrize("code", [errno.EPIPE, errno.ENOSPC])
    def test_nobody_reads(self, terminal, monkeypatch, code):
        """An event that cannot be written is dropped, for it must not end training."""

        def refuse(*_):
            raise OSError(code, "no")

        monkeypatch.setattr(terminal, "write", refuse)
        monkeypatch.setattr(terminal, "flush", refuse)
        configure({})

        structlog.get_logger().info("group_started", runs=3)


class TestGroupLog:
    """The log of one attempt."""

    def test_keeps_the_own_events_of_a_run(self, capsys):
        """A run's log holds what is about its group and about itself, not what is about its group mates."""
        configure()
        log = GroupLog(gid="g1")
        log.log("group_started", runs=2)
        log.log("diverged", rid="b", level="warning")
        log.log("task_done", rid="a")

        events = [json.loads(line) for line in log.lines("a").splitlines()]
        assert [event["event"] for event in events] == ["group_started", "task_done"]
        assert {event["gid"] for event in events} == {"g1"}
        assert len(capsys.readouterr().err.splitlines()) == 3
