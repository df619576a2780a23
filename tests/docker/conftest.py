"""The image, built once from this checkout by the engine that DOCKER_HOST names."""

import hashlib
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def docker() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a caller of docker that keeps what it says."""

    def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)

    return call


@pytest.fixture(scope="session")
def image(docker: Callable[..., subprocess.CompletedProcess[str]]) -> str:
    """Return the tag of the image, freshly built from this checkout; each checkout has a tag of its own."""
    tag = f"contilab:test-{hashlib.sha256(bytes(ROOT)).hexdigest()[:8]}"
    built = docker("build", *shlex.split(os.environ.get("CONTILAB_BUILD_ARGS", "")), "-t", tag, ROOT)
    assert built.returncode == 0, built.stderr[-3000:]
    return tag
