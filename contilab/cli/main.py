"""The entry point: runs one command and turns every way it can end into an exit code and at most a few sentences.

Nothing heavy is imported here: as PID 1 of a container the process has no default signal handlers, so the ones below must be
there before anything that takes long.
"""

import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

from contilab.errors import ContilabError, EnvironmentFault, Fault

CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in b"\n\t"}  # a terminal obeys them


def main() -> None:
    """Run the command line of this process and exit."""
    _end_on_signals(_exit_at_once)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `contilab list | head` ends like every other program there
    _open_streams()
    from contilab.cli.app import app

    _end_on_signals(_exit_now)
    code = guarded(app)
    _drop_unwritable()
    sys.exit(code)


def guarded(command: Callable[[], object]) -> int:
    """Run *command* and return its exit code; what went wrong is told on standard error, without a traceback."""
    try:
        command()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1 if end.code else 0
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except ContilabError as error:
        tell(*error.faults)
        _show_traceback_if_asked()
        return error.exit_code
    except OSError as error:
        return _told_of_system(error)
    except Exception as error:  # noqa: BLE001  # the last place that can turn a fault of ours into a sentence
        return _told_of_ours(error)
    return 0


def tell(*faults: Fault) -> None:
    """Print *faults* on standard error in the one form of all errors."""
    texts = [_text(fault) for fault in faults]
    with suppress(OSError):  # the reader has gone; the exit code says the rest
        sys.stderr.write(("\n" if any(fault.hint for fault in faults) else "").join(texts))
        sys.stderr.flush()


def say(text: str) -> None:
    """Print the line *text* on standard output; a reader that has gone is no reason to stop."""
    with suppress(OSError):
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def _text(fault: Fault) -> str:
    place = f"{fault.place}: " if fault.place else ""
    hint = f"\nhint: {fault.hint}\n" if fault.hint else ""
    return f"error: {place}{fault.problem}\n{hint}".translate(CONTROLS)


def _told_of_system(error: OSError) -> int:
    """Tell of an error of the operating system: a full disk, missing rights; what is none of these is a fault of ours.

    It came on the way: an environment that does not allow a start is told by RefusedStart, before anything is done.
    """
    from contilab.runner.faults import fault_of
    from contilab.store.ending import is_environment

    if not is_environment(error):
        return _told_of_ours(error)
    tell(fault_of(error, ""))
    _show_traceback_if_asked()
    return EnvironmentFault.exit_code


def _told_of_ours(error: Exception) -> int:
    tell(_fault_of_ours(error))
    _show_traceback_if_asked()
    return 1


def _fault_of_ours(error: Exception) -> Fault:
    problem = f"unexpected {type(error).__name__}: {error}".splitlines()[0]
    return Fault("contilab", problem, f"please report it with the traceback {_kept_traceback()}")


def _kept_traceback() -> str:
    try:
        with tempfile.NamedTemporaryFile("w", prefix="contilab-", suffix=".txt", delete=False, encoding="utf-8") as file:
            file.write(traceback.format_exc())
    except OSError:
        return "that --debug prints"
    return f"in {Path(file.name)}"


def _show_traceback_if_asked() -> None:
    if os.environ.get("CONTILAB_DEBUG", "") not in ("", "0"):
        traceback.print_exc()


def _open_streams() -> None:
    """Open the standard streams that were closed: else a file of the store gets number 2, and each warning lands in it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))  # the lowest free number


def _drop_unwritable() -> None:
    """Drop what a stream could not write: the interpreter would try again at its end, and replace the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _end_on_signals(handler: Callable[[int, FrameType | None], None]) -> None:
    signal.signal(signal.SIGTERM, handler)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as in a job that a shell started in the background
        signal.signal(signal.SIGINT, handler)


def _exit_at_once(signum: int, _frame: FrameType | None) -> None:
    """End without an exception: while modules are imported some would be swallowed or wrapped, and nothing is begun yet."""
    os._exit(128 + signum)


def _exit_now(signum: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + signum)
