"""What the processor and the devices of this machine can do. Flags alone do not tell what is fast; `bench` measures that."""

import platform
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # it ships no types

CPUINFO = Path("/proc/cpuinfo")


def capabilities(cpuinfo: Path = CPUINFO) -> dict[str, Any]:
    """Return processor model, cores, instruction sets as torch sees them, and CUDA devices. Loads torch."""
    import torch

    return {
        "cpu": {
            "model": cpu_model(cpuinfo),
            "architecture": platform.machine(),
            "cores_logical": psutil.cpu_count(logical=True),
            "cores_physical": psutil.cpu_count(logical=False),
            "torch_kernels": torch.backends.cpu.get_cpu_capability(),
            "instruction_sets": _instruction_sets(torch),
        },
        "cuda": [_cuda(torch, index) for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else [],
    }


def cpu_model(cpuinfo: Path = CPUINFO) -> str:
    """Return the processor's name, or the architecture where the system does not tell it."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith(("model name", "Model")) and ":" in line]
    return names[0] if names else platform.machine()


def _instruction_sets(torch: Any) -> list[str]:
    # torch.cpu.get_capabilities came with torch 2.11; older ones only tell the level of their kernels.
    ask = getattr(torch.cpu, "get_capabilities", None)
    if ask is None:
        return []
    return sorted(name for name, value in ask().items() if value is True)


def _cuda(torch: Any, index: int) -> dict[str, Any]:
    facts = torch.cuda.get_device_properties(index)
    return {
        "index": index,
        "name": facts.name,
        "compute_capability": f"{facts.major}.{facts.minor}",
        "memory_bytes": int(facts.total_memory),
    }
