"""Which device trains: what was asked for, checked against what is there before anything is claimed."""

import re
import warnings
from collections.abc import Callable
from typing import NamedTuple

from contilab.errors import DeviceError, UsageError


class Choice(NamedTuple):
    """A value that was chosen and why."""

    value: str
    reason: str


def cuda_devices() -> int:
    """Return the number of CUDA devices that torch can use here."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def check_device(asked: str) -> int:
    """Return the number in *asked* (cuda:N), 0 where it has none; UsageError if it names no device at all."""
    match = re.fullmatch(r"auto|cpu|cuda(?::([0-9]+))?", asked)
    if not match:
        raise UsageError("device", f'"{asked}" is no device', hint="auto, cpu, cuda or cuda:N")
    return int(match[1] or 0)


def choose_device(asked: str, *, count: Callable[[], int] = cuda_devices) -> Choice:
    """Return the device for *asked* (auto, cpu, cuda or cuda:N). torch is loaded unless it is "cpu".

    Raises UsageError for another word and DeviceError where there is no such device.
    """
    index = check_device(asked)
    if asked == "cpu":
        return Choice("cpu", "asked for")
    present = count()
    if asked == "auto":
        return Choice("cuda:0", f"{present} CUDA device(s) found") if present else Choice("cpu", "no CUDA device found")
    if index >= present:
        found = f"there are {present}, numbered from 0" if present else "torch sees no CUDA device"
        raise DeviceError("device", f'"{asked}" does not exist: {found}', hint=_way_out(present))
    return Choice(f"cuda:{index}", "asked for")


def use_device(device: str) -> None:
    """Let this process compute on the GPU *device* as records say it does: fp32 in fp32, and the same bits each time.

    By default torch lets cuDNN round the factors of fp32 convolutions to TF32, which has 10 bits of 23; some images ask the
    same of products, by TORCH_ALLOW_TF32_CUBLAS_OVERRIDE. And cuDNN may find gradients in ways that add in any order.
    """
    import torch

    torch.cuda.set_device(device)  # else page-locked memory would open a context on the first GPU too
    torch.backends.cudnn.deterministic = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions of torch have other names for the same beside these
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False


def _way_out(present: int) -> str:
    if present:
        return f"use cuda:0 to cuda:{present - 1}, or cpu"
    return "use --device cpu; in a container start it with --gpus all and the CUDA image"
