"""Logs: events with facts, on standard error; JSON lines for machines, one readable line each on a terminal.

The runner keeps the events of a group in memory too and writes them next to each result (`log.jsonl`).
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import structlog
from structlog.typing import EventDict, Processor

from contilab.store.layout import short

Event = dict[str, Any]


class CurrentStderr:
    """Writes to whatever `sys.stderr` is now: progress bars redirect it while they are on the screen.

    What cannot be written is dropped: a reader that has gone, or a log on a full disk, must not end training.
    """

    def write(self, text: str) -> int:
        """Write *text*."""
        with suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush what was written."""
        with suppress(OSError):
            sys.stderr.flush()


class Output(Protocol):
    """Where lines of the log go."""

    def write(self, text: str) -> int:
        """Write *text*."""

    def flush(self) -> None:
        """See that it is written."""


STDERR = CurrentStderr()


def is_readable(environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether a person reads: standard error is a terminal that can move its cursor."""
    return sys.stderr.isatty() and environ.get("TERM") != "dumb"


def print_line(text: str) -> None:
    """Print a line of the log of another process, which may lack its end."""
    STDERR.write(text)


def configure(
    environ: Mapping[str, str] = os.environ,
    *,
    readable: bool | None = None,
    output: Output = STDERR,
    worker: int | None = None,
) -> None:
    """Set up structlog for the whole process: where to, and in which form. Details are shown with CONTILAB_DEBUG only.

    *readable*: for a person, else as standard error is. *worker*: the number that each line carries, one of several.
    """
    readable = is_readable(environ) if readable is None else readable
    own: list[Processor] = [] if worker is None else [_of_worker(worker)]
    is_debug = environ.get("CONTILAB_DEBUG", "") not in ("", "0")
    structlog.configure(
        processors=[
            *own,
            *(_readable(environ) if readable else [_level, _now, structlog.processors.JSONRenderer(default=str)]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if is_debug else logging.INFO),
        logger_factory=lambda *_: structlog.PrintLogger(output),  # type: ignore[arg-type]  # it only writes and flushes
        cache_logger_on_first_use=False,
    )


class GroupLog:
    """The log of one attempt at a group: what is logged is printed and kept, for the `log.jsonl` of each result.

    *keep*: gets each event as a line of JSON at once, since this process may be killed.
    """

    def __init__(self, keep: Callable[[bytes], None] = lambda _: None, **facts: Any) -> None:
        self._events: list[Event] = []
        self._keep = keep
        self._logger = structlog.get_logger().bind(**facts)

    def log(self, event: str, *, level: str = "info", **facts: Any) -> None:
        """Log *event* with *facts*; a fact `rid` says that it is about one run only."""
        self._events.append(_now(None, "", {"event": event, "level": level, **structlog.get_context(self._logger), **facts}))
        self._keep(_line(self._events[-1]))
        shown = {**facts, "rid": short(str(facts["rid"]))} if "rid" in facts else facts
        getattr(self._logger, level)(event, **shown)

    def lines(self, rid: str | None = None) -> bytes:
        """Return the events of the group as JSON lines; of those about one run only the ones about *rid*, if given."""
        kept = [event for event in self._events if rid is None or event.get("rid", rid) == rid]
        return b"".join(map(_line, kept))


def _line(event: Event) -> bytes:
    return json.dumps(event, default=str).encode() + b"\n"


def _of_worker(worker: int) -> Processor:
    def add(_logger: Any, _name: str, event: EventDict) -> EventDict:
        return {"worker": worker, **event}

    return add


_level = structlog.processors.add_log_level
_stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)


def _now(logger: Any, name: str, event: EventDict) -> Event:
    return dict(_stamp(logger, name, event))


def _readable(environ: Mapping[str, str]) -> list[Processor]:
    colors = "NO_COLOR" not in environ
    renderer = structlog.dev.ConsoleRenderer(
        colors=colors, pad_event_to=0, sort_keys=False, exception_formatter=structlog.dev.plain_traceback
    )
    return [_level, structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False), renderer]
