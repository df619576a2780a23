"""Which arithmetic a device offers for the matrix products of training. Whether bf16 is fast there, only a measurement tells.

On a Xeon with AVX512-BF16 but without AMX a bf16 product runs at half the speed of fp32 (185 against 350 GFLOP/s on 2 cores);
with AMX at 6 to 8 times it (1,100 to 1,330 against 170 to 180 GFLOP/s on one core of a Xeon of 2023, torch 2.13).
"""

from collections.abc import Mapping
from typing import Any, Literal

Precision = Literal["fp32", "bf16"]

NEEDED = ("avx512_bf16", "amx_bf16")  # one of them, on an x86 processor; torch's names (on ARM, where there is neon, "bf16")


def candidates(device: str) -> tuple[Precision, ...]:
    """Return the arithmetics worth measuring on *device* (cpu, cuda or cuda:N). Loads torch."""
    return ("fp32",) if lacking(device) else ("fp32", "bf16")


def lacking(device: str) -> tuple[str, ...]:
    """Return the instruction sets of which *device* would need one for bf16; none if it has it. Loads torch."""
    import torch

    if device.startswith("cuda"):
        return () if torch.cuda.is_bf16_supported(including_emulation=False) else ("bf16 units (compute capability 8.0)",)
    return lacking_of(_capabilities(torch))


def lacking_of(capabilities: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a processor with *capabilities*, by torch's names, lacks for bf16.

    >>> lacking_of({"avx512_f": True, "avx512_bf16": False, "amx_bf16": False})
    ('avx512_bf16', 'amx_bf16')
    >>> lacking_of({"avx512_bf16": False, "amx_bf16": True})
    ()
    """
    needed = ("bf16",) if "neon" in capabilities else NEEDED
    return () if any(capabilities.get(name) for name in needed) else needed


def _capabilities(torch: Any) -> Mapping[str, Any]:
    ask = getattr(torch.cpu, "get_capabilities", None)  # came with torch 2.11; what an older one does not tell is not there
    found: Mapping[str, Any] = ask() if ask else {}
    return found
