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
from pathlib import Path
from types import FrameType

from contilab.errors import ContilabError, Fault


def main() -> None:
    """Run the command line of this process and exit."""
    signal.signal(signal.SIGTERM, _exit_now)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `contilab list | head` ends like every other program there
    from contilab.cli.app import app

    sys.exit(guarded(app))


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
    except Exception as error:  # noqa: BLE001  # the last place that can turn a fault of ours into a sentence
        tell(_fault_of_ours(error))
        _show_traceback_if_asked()
        return 1
    return 0


def tell(*faults: Fault) -> None:
    """Print *faults* on standard error in the one form of all errors."""
    texts = [_text(fault) for fault in faults]
    sys.stderr.write(("\n" if any(fault.hint for fault in faults) else "").join(texts))


def _text(fault: Fault) -> str:
    place = f"{fault.place}: " if fault.place else ""
    hint = f"\nhint: {fault.hint}\n" if fault.hint else ""
    return f"error: {place}{fault.problem}\n{hint}"


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


def _exit_now(signum: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + signum)
