"""What the machine could do at most: the fastest square product of matrices, and how fast memory is copied.

Both are measured in the run that they are compared with, by the same number of threads.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch

SIZES = (1024, 2048, 4096)  # of square products; the fastest counts
COPY_BYTES = 2**28  # more than most last-level caches hold
TRIES = 3


class Bounds(NamedTuple):
    """GFLOP/s of the best square fp32 product; GB/s of a copy, read and written bytes together."""

    gemm_gflops: float
    copy_gb_per_s: float

    def best_of(self, other: "Bounds") -> "Bounds":
        """Return the larger of each: what slowed one measurement down is no bound."""
        return Bounds(*(max(pair) for pair in zip(self, other, strict=True)))


def bounds(device: str = "cpu") -> Bounds:
    """Measure both bounds with torch's threads, in 1 to 4 seconds."""
    return Bounds(max(_gemm(size, device) for size in SIZES) / 1e9, _copy(COPY_BYTES, device) / 1e9)


def _gemm(size: int, device: str) -> float:
    left, right = torch.rand(size, size, device=device), torch.rand(size, size, device=device)
    out = torch.empty_like(left)
    return 2 * size**3 / _seconds(lambda: torch.mm(left, right, out=out), device)


def _copy(count: int, device: str) -> float:
    source = torch.ones(count // 4, device=device)
    target = torch.empty_like(source)
    return 2 * count / _seconds(lambda: target.copy_(source), device)


def _seconds(action: Callable[[], object], device: str) -> float:
    action()
    return min(_timed(action, device) for _ in range(TRIES))


def _timed(action: Callable[[], object], device: str) -> float:
    begin = time.perf_counter()
    action()
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter() - begin
