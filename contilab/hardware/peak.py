"""The most memory that this process took while something ran, beyond what it held before: of the machine, or of a GPU."""

import re
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from contilab.hardware.process import give_back_freed_memory

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")

_forgotten = [0]  # the highest peak that the system was told to forget


def highest_bytes(known: int) -> int:
    """Return the largest resident set of this process since it began, *known* being what the system tells of it now."""
    return max(known, *_forgotten)


def forget_device_peak(device: str) -> None:
    """Let the peak of the GPU *device* count from now on; of a processor it stays that of the process."""
    if device != "cpu":
        import torch

        torch.cuda.reset_peak_memory_stats(device)


class PeakMemory:
    """*peak_bytes* after `with`: of a processor the growth of the resident set at its largest, of a GPU that of its tensors.

    *is_exact*: whether the system told. Some containers do not let a process forget its old peak; what is told then may be too
    much, and is 0 where the system tells nothing.
    """

    def __init__(self, device: str = "cpu") -> None:
        self.peak_bytes = 0
        self.is_exact = False
        self._device = device

    def __enter__(self) -> Self:
        if self._device != "cpu":
            import torch

            forget_device_peak(self._device)
            self.is_exact, self._before = True, torch.cuda.memory_allocated(self._device)
            return self
        give_back_freed_memory()  # what is asked for anew shall be seen
        _forgotten[0] = highest_bytes(_bytes("VmHWM"))
        with suppress(OSError):
            RESET.write_text("5", encoding="ascii")  # Linux: the peak counts from now on
            self.is_exact = True
        self._before = _bytes("VmRSS")
        self.is_exact = self.is_exact and self._before > 0
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self.peak_bytes = max(0, self._peak() - self._before)

    def _peak(self) -> int:
        if self._device == "cpu":
            return _bytes("VmHWM")
        import torch

        return torch.cuda.max_memory_allocated(self._device)


def _bytes(name: str) -> int:
    try:
        found = re.search(rf"^{name}:\s+(\d+)", STATUS.read_text(encoding="ascii", errors="replace"), re.MULTILINE)
    except OSError:
        return 0
    return 1024 * int(found[1]) if found else 0
