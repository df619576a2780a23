"""Products of fp32 matrices whose factors the library rounds to bf16 on the way; sums and results stay fp32.

As exact as products of bf16 tensors, and no pass over memory goes into making those. Five MLPs 2x400, batch 128, Adam, one core
of a Xeon with AMX, samples/s in fp32, by autocast and so: naive 29,200, 27,900, 44,600; er 16,600, 20,400, 28,900; with the
other core as busy 22,200, 24,500, 39,800 and 11,700, 17,400, 24,600. Of convolutions autocast is as fast or faster.
"""

from functools import cache
from types import TracebackType
from typing import Any

import torch

from contilab.models.contract import Model

SIDE = 128  # of the matrices that are tried; chosen: the library leaves small ones alone


class Rounded:
    """A context in which products are so: all of the process, so one thread alone may be in it, and multiplies for a model."""

    def __enter__(self) -> None:
        """Begin."""
        products = _products()
        self._before = products.fp32_precision
        products.fp32_precision = "bf16"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Multiply as before."""
        _products().fp32_precision = self._before


@cache
def is_offered() -> bool:
    """Tell whether torch and this processor do it, by a product that tells."""
    if not hasattr(_products(), "fp32_precision"):  # came with torch 2.9
        return False
    values = torch.full((SIDE, SIDE), 1 + 2**-10, dtype=torch.float32)  # bf16 has 1 and 1 + 2^-7, and nothing between
    with Rounded():
        return bool((values @ values == SIDE).all())


def is_rounded(model: Model) -> bool:
    """Tell whether products of *model* are made so; otherwise, in bf16, of tensors in bf16."""
    return model.rounds and bool(model.chain) and is_offered()


def _products() -> Any:
    return getattr(torch.backends.mkldnn, "matmul", None)
