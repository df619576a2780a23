"""Containers that are killed, paused, stopped and starved, on one store: a folder, which the tests read themselves."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contilab.disk.read import names
from contilab.store.generation import Generation, generation
from contilab.store.layout import numbers
from contilab.store.result import altered, complete
from contilab.store.store import Store, open_store

TTL_SECONDS = 4
GROUPS = 6
MANIFEST = """
name = "study"
[matrix]
preset = ["synthetic_class"]
method = ["naive"]
seed = [0, 1, 2, 3, 4, 5]
[overrides]
"train.epochs" = 400
"engine.max_members" = 1
"""
LARGE = """
name = "large"
[matrix]
preset = ["synthetic_class"]
method = ["naive"]
seed = [0]
[overrides]
"model.hidden" = [20000, 20000]
"""
SMALL = LARGE.replace('"large"', '"small"').replace("[20000, 20000]", "[8]")

Docker = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = [
    pytest.mark.container,
    pytest.mark.timeout(600),  # the first build downloads torch
    pytest.mark.skipif("DOCKER_HOST" not in os.environ, reason="DOCKER_HOST names no container engine"),
]


class Volume:
    """A folder as the store of containers, which run as its owner, each with one core."""

    def __init__(self, docker: Docker, image: str, folder: Path) -> None:
        self.docker = docker
        self.root = folder / "store"
        self.root.mkdir()
        self.user = os.getuid() or 12345
        os.chown(self.root, self.user, -1)
        self._image = image
        self._started: list[str] = []

    def _options(self, mode: str) -> list[str]:
        return ["--network=none", "--cpus=1", f"--user={self.user}:{self.user}", "-v", f"{self.root}:/store:{mode}"]

    def contilab(self, *arguments: str, mode: str = "rw") -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return self.docker("run", "--rm", *self._options(mode), self._image, *arguments)

    def plan(self, text: str) -> None:
        """Plan a manifest."""
        manifest = self.root.parent / "study.toml"
        manifest.write_text(text)
        bound = ("-v", f"{manifest}:/app/study.toml:ro")
        options = [*self._options("rw"), *bound, self._image]
        planned = self.docker("run", "--rm", *options, "plan", "study.toml", "--ttl", str(TTL_SECONDS))
        assert planned.returncode == 0, planned.stderr

    def start(self, *options: str) -> str:
        """Start a runner in a container of its own and return the container's number."""
        started = self.docker("run", "-d", *self._options("rw"), *options, self._image, "run")
        assert started.returncode == 0, started.stderr
        self._started.append(started.stdout.strip())
        return self._started[-1]

    def exit_code(self, container: str) -> int:
        """Wait for the end of a container."""
        return int(self.docker("wait", container).stdout)

    def close(self) -> None:
        """Remove the containers."""
        for container in self._started:
            self.docker("unpause", container)
            self.docker("rm", "-f", "-v", container)

    @property
    def store(self) -> Store:
        """The store."""
        return open_store(self.root)

    def generations(self) -> list[tuple[str, Generation]]:
        """Return every claim with the address of its group."""
        layout = self.store.layout
        found = {gid: numbers(names(layout.claims(gid)), ".json") for gid in self.store.group_ids()}
        return [(gid, generation(layout, gid, n)) for gid, claims in found.items() for n in claims]

    def attempts(self, container: str) -> list[Generation]:
        """Return the attempts of the runner in a container; its host name is the container's number."""
        runners = {path.stem for path in (self.root / "runners").glob("*.json") if _host(path) == container[:12]}
        return [one for _, one in self.generations() if one.runner in runners]


def _host(path: Path) -> str:
    table: dict[str, Any] = json.loads(path.read_text())
    return str(table["host"])


def wait_for(holds: Callable[[], object], seconds: float = 90) -> None:
    """Return once *holds* is true; fail after *seconds*."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def wrongs(store: Store) -> list[str]:
    """Return what is wrong with a finished store: runs without a result, altered files, disagreements, results of nobody."""
    found = [str(record) for record in store.mismatches()]
    for rid in store.study("study").rids:
        manifest = complete(store.result_dir(rid), rid)
        if manifest is None:
            found.append(f"{rid} has no complete result")
        elif altered(store.result_dir(rid), manifest):
            found.append(f"{rid} is altered")
        elif generation(store.layout, manifest.gid, manifest.n).runner != manifest.runner:
            found.append(f"{rid} came from no claim")
    return found


@pytest.fixture
def volume(docker: Docker, image: str, tmp_path: Path) -> Iterator[Volume]:
    """A folder as an empty store; containers that were started on it are removed at the end."""
    made = Volume(docker, image, tmp_path)
    yield made
    made.close()


class TestThreeRunners:
    """Three containers on one volume, of which none comes to its end undisturbed."""

    def test_killed_paused_stopped(self, volume: Volume) -> None:
        """One SIGKILLed, one paused past the TTL, one stopped: all finishes once, and the stopped group is not charged."""
        volume.plan(MANIFEST)
        killed, paused, stopped = volume.start(), volume.start(), volume.start()
        wait_for(lambda: all(volume.attempts(one) for one in (killed, paused, stopped)))

        volume.docker("kill", killed)
        volume.docker("pause", paused)
        started = time.monotonic()
        volume.docker("stop", stopped)
        seconds = time.monotonic() - started
        left = volume.attempts(stopped)[-1]
        time.sleep(TTL_SECONDS)
        successor = volume.start()
        held = volume.attempts(paused)[-1]
        (gid,) = (gid for gid, one in volume.generations() if one == held)
        wait_for(lambda: max(numbers(names(volume.store.layout.claims(gid)), ".json")) > held.n)
        volume.docker("unpause", paused)

        assert volume.exit_code(killed) == 137
        assert volume.exit_code(stopped) == 143
        assert seconds <= 10
        assert (left.end or {}).get("kind") in {"released", "done"}
        assert [volume.exit_code(one) for one in (paused, successor)] == [0, 0]
        assert wrongs(volume.store) == []
        followed = generation(volume.store.layout, gid, held.n)
        assert (followed.end or {}).get("kind") == "superseded"
        silent = [one.n for _, one in volume.generations() if one.end is None]
        assert len(silent) == 1  # that of the killed runner: the only one that is charged


class TestStarvation:
    """Containers that lack what a runner needs."""

    def test_read_only_volume(self, volume: Volume) -> None:
        """On a volume that is mounted read-only a runner says so in one sentence and does not start: exit code 4."""
        volume.plan(SMALL)
        refused = volume.contilab("run", mode="ro")

        assert refused.returncode == 4
        assert refused.stderr.count("error: ") == 1
        assert "EROFS" in refused.stderr
        assert volume.generations() == []

    def test_out_of_memory(self, volume: Volume) -> None:
        """A group that the OOM killer ends three times is put aside and named; the others finish; `retry` opens it again."""
        volume.plan(SMALL)
        volume.plan(LARGE)
        limits = ("--memory=640m", "--memory-swap=640m")
        codes = []
        for _ in range(5):
            codes.append(volume.exit_code(volume.start(*limits)))
            if codes[-1] != 137:
                break
        (large,) = volume.store.study("large").rids
        (small,) = volume.store.study("small").rids
        (gid,) = (gid for gid, rids in volume.store.groups().items() if large in rids)
        told = volume.contilab("status").stdout

        assert codes == [137, 137, 137, 3]
        assert len([one for name, one in volume.generations() if name == gid]) == 3
        assert volume.store.results() == {small}
        assert "quarantined" in told
        assert volume.contilab("retry").returncode == 0
        assert volume.exit_code(volume.start(*limits)) == 137


class TestCluster:
    """The settings of docker/kubernetes.yaml, as far as an engine without a cluster has them."""

    def test_without_privileges(self, docker: Docker, image: str) -> None:
        """The image plans, runs and reports as the Job starts it: no capability, no new privileges, user and group 1000."""
        options = ("--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--user=1000:1000")
        command = "contilab plan manifests/smoke.toml matrix.seed=[0] && contilab run && contilab report smoke"
        done = docker("run", "--rm", *options, "--entrypoint=sh", image, "-c", command)

        assert done.returncode == 0, done.stderr
