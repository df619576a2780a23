"""docker/compose.yaml and compose.gpu.yaml, started by Docker Compose (Debian's docker-compose 1.29 or the plugin)."""

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "docker"
COMPOSE = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
RUNS = 3 * 4 * 2  # manifests/smoke.toml: scenarios x methods x seeds

Docker = Callable[..., subprocess.CompletedProcess[str]]
Compose = Callable[..., subprocess.CompletedProcess[str]]

containers = [
    pytest.mark.container,
    pytest.mark.timeout(600),  # the first build downloads torch
    pytest.mark.skipif("DOCKER_HOST" not in os.environ, reason="DOCKER_HOST names no container engine"),
    pytest.mark.skipif(
        subprocess.run([*COMPOSE, "version"], capture_output=True, check=False).returncode != 0
        if shutil.which(COMPOSE[0])
        else True,
        reason="Docker Compose is not installed",
    ),
]


class TestText:
    """The two files as texts."""

    def test_runners_end_in_their_own_time(self) -> None:
        """Runners get signals through an init, have 60 s to stop, and each service runs as the user that is asked for."""
        services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]

        assert services["run"]["stop_grace_period"] == "60s"
        assert {(one["init"], one["user"]) for one in services.values()} == {(True, "${CONTILAB_USER:-1000:1000}")}

    def test_override_adds_gpus_to_runners_only(self) -> None:
        """The override changes nothing but the devices of the runners."""
        override = yaml.safe_load((FOLDER / "compose.gpu.yaml").read_text())
        devices = [{"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}]

        assert override == {"services": {"run": {"deploy": {"resources": {"reservations": {"devices": devices}}}}}}


@pytest.fixture
def compose(image: str, docker: Docker) -> Iterator[Compose]:
    """Return a caller of Compose with a project and a volume of its own."""
    name = f"contilab-test-{uuid.uuid4().hex[:8]}"
    environment = {**os.environ, "CONTILAB_IMAGE": image, "CONTILAB_VOLUME": name, "CONTILAB_CPUS": "1"}

    def call(*arguments: str, files: tuple[str, ...] = ("compose.yaml",)) -> subprocess.CompletedProcess[str]:
        chosen = [option for file in files for option in ("-f", str(FOLDER / file))]
        command = [*COMPOSE, "-p", name, *chosen, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    yield call
    call("down", "-v")


@pytest.fixture
def found(image: str, docker: Docker) -> Callable[[Compose], str]:
    """Return a reader of the report on the volume of a project."""

    def read(compose: Compose) -> str:
        volume = yaml.safe_load(compose("config").stdout)["volumes"]["store"]["name"]
        options = ("--network=none", "-v", f"{volume}:/store", "--entrypoint=cat")
        return docker("run", "--rm", *options, image, "/store/reports/smoke/results.csv").stdout

    return read


class TestCompose:
    """Compose itself starts the files."""

    pytestmark = containers

    def test_two_runners(self, compose: Compose, found: Callable[[Compose], str]) -> None:
        """`up --scale run=2` plans, runs by two containers and reports every run."""
        done = compose("up", "--scale", "run=2", "--no-color")

        assert done.returncode == 0, done.stderr
        assert "run_2" in done.stdout or "run-2" in done.stdout
        assert found(compose).count("finished") == RUNS

    def test_stop(self, compose: Compose, docker: Docker) -> None:
        """`stop` ends waiting runners within the 10 s that bare containers have, all with exit code 143."""
        compose("run", "--rm", "plan")
        runner = compose("run", "-d", "run", "run", "--wait").stdout.strip()
        deadline = time.monotonic() + 60
        while not (logs := docker("logs", runner)).stdout + logs.stderr and time.monotonic() < deadline:
            time.sleep(0.2)
        started = time.monotonic()
        docker("stop", runner)

        assert time.monotonic() - started <= 10
        assert docker("wait", runner).stdout == "143\n"
        docker("rm", "-f", "-v", runner)

    def test_gpus(self, compose: Compose) -> None:
        """With the override each runner asks the engine for NVIDIA devices, and an engine that has none refuses by name."""
        files = ("compose.yaml", "compose.gpu.yaml")
        asked = yaml.safe_load(compose("config", files=files).stdout)["services"]["run"]["deploy"]["resources"]

        assert asked["reservations"]["devices"][0]["driver"] == "nvidia"
        done = compose("run", "--rm", "--no-deps", "run", "run", files=files)
        assert done.returncode in {0, 1, 4}  # 4: GPUs are there and nothing is planned
        assert done.returncode == 4 or 'could not select device driver "nvidia"' in done.stdout + done.stderr
