"""How a command ends: exit code and sentences."""

import errno
import os
import re
from pathlib import Path

import pytest

from contilab.cli.main import guarded, tell
from contilab.errors import DeviceError, Fault, ManifestError, UsageError


def raising(error):
    """Return a command that raises *error*."""

    def command():
        raise error

    return command


@pytest.fixture(autouse=True)
def _no_debug(monkeypatch):
    monkeypatch.delenv("CONTILAB_DEBUG", raising=False)


class TestTell:
    """Faults as text."""

    def test_form(self, capsys):
        """Place and problem, a blank line, the way out; all on standard error."""
        tell(Fault("a.toml", "it is wrong", "make it right"), Fault("", "so is this"))

        assert capsys.readouterr() == ("", "error: a.toml: it is wrong\n\nhint: make it right\n\nerror: so is this\n")

    def test_names_give_the_terminal_no_orders(self, capsys):
        """Control characters in names of files, which others may have chosen, are written out."""
        tell(Fault("a\x1b[2J\r\x9b.png", "no picture"))

        assert capsys.readouterr().err == "error: a\\x1b[2J\\x0d\\x9b.png: no picture\n"


class TestGuarded:
    """From exception to exit code."""

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (UsageError("x", "y"), 2),
            (ManifestError([Fault("a", "b"), Fault("c", "d")]), 2),
            (DeviceError("x", "y"), 4),
            (SystemExit(6), 6),
            (SystemExit(None), 0),
            (SystemExit("text"), 1),
            (KeyboardInterrupt(), 130),
        ],
    )
    def test_code(self, error, code, capsys):
        """Each kind of end has its own exit code and no traceback."""
        assert guarded(raising(error)) == code
        assert "Traceback" not in capsys.readouterr().err

    def test_success(self):
        """A command that returns is a success."""
        assert guarded(lambda: None) == 0

    def test_every_fault_is_told(self, capsys):
        """All faults of one error are printed."""
        guarded(raising(ManifestError([Fault("a", "b"), Fault("c", "d")])))

        assert capsys.readouterr().err == "error: a: b\nerror: c: d\n"

    def test_full_disk(self, capsys):
        """A full disk is a fault of the machine: its place and the way out, exit code 5."""
        assert guarded(raising(OSError(errno.ENOSPC, "No space left on device", "/runs/a.json"))) == 5

        text = capsys.readouterr().err
        assert text.startswith("error: /runs/a.json: No space left on device, ")
        assert "hint: free space" in text

    @pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
    def test_what_may_not_be_written(self, number, capsys):
        """What turns out on the way to be read-only or another's has its place and the way out, exit code 5."""
        assert guarded(raising(OSError(number, os.strerror(number), "/runs/a.json"))) == 5

        text = capsys.readouterr().err
        assert text.startswith(f"error: /runs/a.json: {os.strerror(number)}")
        assert "\nhint: " in text

    def test_fault_of_ours(self, capsys):
        """An unexpected exception is one sentence that names the file with the traceback, exit code 1."""
        assert guarded(raising(ZeroDivisionError("by zero"))) == 1

        text = capsys.readouterr().err
        assert text.startswith("error: contilab: unexpected ZeroDivisionError: by zero\n")
        kept = Path(re.search(r"traceback in (\S+)", text)[1])
        assert "ZeroDivisionError: by zero" in kept.read_text()
        kept.unlink()

    def test_no_place_for_the_traceback(self, capsys, monkeypatch):
        """Where no file can be written, the sentence tells how to see the traceback."""

        def refuse(*args, **kwargs):
            raise OSError

        monkeypatch.setattr("contilab.cli.main.tempfile.NamedTemporaryFile", refuse)
        guarded(raising(ZeroDivisionError("by zero")))

        assert "--debug" in capsys.readouterr().err

    def test_debug(self, capsys, monkeypatch):
        """With CONTILAB_DEBUG the traceback is printed too."""
        monkeypatch.setenv("CONTILAB_DEBUG", "1")
        guarded(raising(UsageError("x", "y")))

        assert "Traceback" in capsys.readouterr().err
