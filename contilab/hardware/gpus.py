"""Which CUDA devices this process may use, asked without loading torch here.

A short-lived process asks torch, since that alone knows what its build can use; where the system has no driver nobody is asked.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

DRIVER = Path("/dev/nvidiactl")
ASK_SECONDS = 60.0  # chosen: importing torch from a cold disk takes up to 20 s
_QUESTION = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"


def gpus(environ: Mapping[str, str] = os.environ, *, driver: Path = DRIVER, question: str = _QUESTION) -> tuple[str, ...]:
    """Return what CUDA_VISIBLE_DEVICES must hold to leave exactly one of the devices, for each of them."""
    if not driver.exists():
        return ()
    command = [sys.executable, "-P", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{question}"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, check=True, timeout=ASK_SECONDS)  # noqa: S603  our own words
        count = int(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return ()  # the worker that finds no device says so better than this question could
    named = [name.strip() for name in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return tuple((named or [str(index) for index in range(count)])[:count])
