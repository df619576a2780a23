"""Versions of everything that may change a run's numbers, read from package metadata without importing the packages."""

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("contilab", "torch", "numpy", "safetensors", "filelock", "pydantic", "structlog", "psutil")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that are installed."""
    return {"python": platform.python_version(), **{name: found for name in PACKAGES if (found := _version(name))}}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
