"""Containers with fewer processors and less memory than their machine: runners count what they may use."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MEMBERS = 64
# One step and one exam per task: what members hold is what counts here. With momentum 64 of them hold more than 1 GiB.
MANIFEST = f"""
name = "large"
[benchmark]
source = "npz"
data = "pictures"
scenario = "class"
tasks = 2
validation = 0
[matrix]
preset = ["npz_class"]
method = ["naive"]
seed = {list(range(MEMBERS))}
[overrides]
"model.name" = "resnet18r"
"optim.momentum" = 0.9
"train.steps" = 1
"train.batch" = 8
"engine.max_members" = {MEMBERS}
"""

Docker = Callable[..., subprocess.CompletedProcess[str]]
Contilab = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = [
    pytest.mark.container,
    pytest.mark.timeout(900),  # the first build downloads torch
    pytest.mark.skipif("DOCKER_HOST" not in os.environ, reason="DOCKER_HOST names no container engine"),
]


def write_pictures(path: Path) -> None:
    """Write 16 pictures for training and 8 for tests, of four classes, 3 x 32 x 32."""
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (24, 3, 32, 32), dtype=np.uint8)
    labels = np.arange(24) % 4
    np.savez(path, train_inputs=pixels[:16], train_labels=labels[:16], test_inputs=pixels[16:], test_labels=labels[16:])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder as the store of containers, which run as its owner."""
    folder = tmp_path / "store"
    folder.mkdir()
    os.chown(folder, os.getuid() or 12345, -1)
    return folder


@pytest.fixture
def contilab(docker: Docker, image: str, root: Path) -> Contilab:
    """Return a caller of contilab in a container with one processor; `--options` of docker come first."""
    user = f"--user={root.stat().st_uid}:{root.stat().st_uid}"

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        options = [word for word in words if word.startswith(("-v", "--memory"))]
        arguments = [word for word in words if word not in options]
        return docker("run", "--rm", "--network=none", "--cpus=1", user, f"-v{root}:/store", *options, image, *arguments)

    return call


def beside(root: Path) -> list[dict[str, Any]]:
    """Return env.json of each result."""
    return [json.loads(path.read_text()) for path in (root / "results").glob("*/env.json")]


class TestProcessors:
    """`--cpus`."""

    def test_one_of_several(self, contilab: Contilab, root: Path) -> None:
        """With one processor the engine uses one thread, however many the machine has."""
        planned = contilab("plan", "manifests/smoke.toml", 'matrix.method=["naive"]', "matrix.seed=[0]")
        done = contilab("run")

        assert (planned.returncode, done.returncode) == (0, 0), planned.stderr + done.stderr
        assert {one["threads"]["value"] for one in beside(root)} == {1}
        assert {"cgroup quota 1" in one["threads"]["reason"] for one in beside(root)} == {True}


class TestMemory:
    """`--memory`."""

    def test_a_group_that_is_too_large(self, contilab: Contilab, root: Path) -> None:
        """64 networks that would be killed in 1 GiB are trained in parts, in one attempt, and say so."""
        files = root.parent
        write_pictures(files / "pictures.npz")
        (files / "large.toml").write_text(MANIFEST)
        bound = [f"-v{files / name}:/app/{name}:ro" for name in ("pictures.npz", "large.toml")]
        imported = contilab(*bound, "data", "import", "pictures", "pictures.npz")
        planned = contilab(*bound, "plan", "large.toml")
        done = contilab("--memory=1g", "--memory-swap=1g", "run")
        splits = [one["memory_split"] for one in beside(root)]

        assert (imported.returncode, planned.returncode) == (0, 0), imported.stderr + planned.stderr
        assert done.returncode == 0, done.stderr
        assert len(splits) == MEMBERS
        assert {split["asked"] for split in splits} == {MEMBERS}
        assert max(split["value"] for split in splits) < MEMBERS
        assert all(split["reason"].startswith("planned before training") for split in splits)
        assert [path.name for path in (root / "claims").glob("*/*.json")] == ["1.json"]
