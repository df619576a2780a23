"""The most memory that this process held while something ran, beyond what it held before."""

import re
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class PeakMemory:
    """*peak_bytes* after `with`: the growth of the resident set at its largest; 0 where the system does not tell."""

    def __init__(self) -> None:
        self.peak_bytes = 0

    def __enter__(self) -> Self:
        with suppress(OSError):
            RESET.write_text("5", encoding="ascii")  # Linux: the peak counts from now on
        self._before = _kibibytes("VmRSS")
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self.peak_bytes = max(0, _kibibytes("VmHWM") - self._before) * 1024


def _kibibytes(name: str) -> int:
    try:
        found = re.search(rf"^{name}:\s+(\d+)", STATUS.read_text(encoding="ascii", errors="replace"), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0
