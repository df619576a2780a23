"""How busy other processes keep this machine while something is measured: a number that belongs beside every speed."""

import os
import time
from types import TracebackType
from typing import Self

import psutil  # type: ignore[import-untyped]  # it ships no types


class ForeignLoad:
    """Cores that other processes use, on average while inside `with`; *value* after it."""

    def __init__(self) -> None:
        self.value = 0.0

    def __enter__(self) -> Self:
        self._begin = (time.perf_counter(), _busy_seconds(), _own_seconds())
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        begin, busy, own = self._begin
        seconds = time.perf_counter() - begin
        self.value = max(0.0, (_busy_seconds() - busy - (_own_seconds() - own)) / seconds)


def _busy_seconds() -> float:
    """Return the seconds that all cores of the machine were busy since it started."""
    times = psutil.cpu_times()._asdict()
    idle = ("idle", "iowait", "guest", "guest_nice", "steal")  # guest time is part of user time already
    return float(sum(value for name, value in times.items() if name not in idle))


def _own_seconds() -> float:
    return sum(os.times()[:4])
