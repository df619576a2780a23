"""The image, built and run by the engine that DOCKER_HOST names; no container has a network (--network=none)."""

import csv
import json
import os
import subprocess
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

RUNS = 3 * 4 * 2  # manifests/smoke.toml: scenarios x methods x seeds

pytestmark = [
    pytest.mark.container,
    pytest.mark.timeout(600),  # the first build downloads torch
    pytest.mark.skipif("DOCKER_HOST" not in os.environ, reason="DOCKER_HOST names no container engine"),
]


def docker(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Call docker and keep what it says."""
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)


def trained(runner: subprocess.CompletedProcess[str]) -> set[str]:
    """Return the addresses of the runs that a runner's log says it finished."""
    events = [json.loads(line) for line in runner.stderr.splitlines() if line.startswith("{")]
    return {event["rid"] for event in events if event["event"] == "run_done"}


class Study(NamedTuple):
    """What the containers of one study said, in order, and the folder its report was written to."""

    plan: subprocess.CompletedProcess[str]
    runners: list[subprocess.CompletedProcess[str]]
    late_runner: subprocess.CompletedProcess[str]
    status: subprocess.CompletedProcess[str]
    report: subprocess.CompletedProcess[str]
    out: Path


@pytest.fixture(scope="module")
def study(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """Plan the smoke study on a new named volume, run it by two containers at once and by a late one, and report it."""
    volume = f"contilab-test-{uuid.uuid4().hex[:8]}"
    out = tmp_path_factory.mktemp("out")
    out.chmod(0o777)  # the image's user is not the owner of this folder

    def contilab(*arguments: str) -> subprocess.CompletedProcess[str]:
        places = ("-v", f"{volume}:/store", "-v", f"{out}:/out", "-e", "CONTILAB_DEBUG=1")  # it logs each run
        return docker("run", "--rm", "--network=none", "--cpus=1", *places, image, *arguments)

    try:
        plan = contilab("plan", "manifests/smoke.toml")
        with ThreadPoolExecutor(2) as pool:
            runners = list(pool.map(contilab, ["run", "run"]))
        yield Study(plan, runners, contilab("run"), contilab("status"), contilab("report", "smoke", "--out", "/out/smoke"), out)
    finally:
        docker("volume", "rm", "-f", volume)


class TestStudy:
    """A study in containers: one that plans, two that run, one that reports."""

    def test_each_container_succeeds(self, study: Study) -> None:
        """Plan, both runners, a runner that comes after the end, status and report exit with 0."""
        done = [study.plan, *study.runners, study.late_runner, study.status, study.report]

        assert [(one.returncode, one.stderr) for one in done if one.returncode != 0] == []

    def test_runners_share_the_work(self, study: Study) -> None:
        """Each run is trained by exactly one of the two runners, each trains some, and a late one finds nothing to do."""
        first, second = (trained(runner) for runner in study.runners)

        assert len(first | second) == len(first) + len(second) == RUNS
        assert min(len(first), len(second)) > 0
        assert trained(study.late_runner) == set()

    def test_plan_says_where_the_store_is(self, study: Study) -> None:
        """Without --store a container uses the volume at /store, and says so."""
        assert "/store" in study.plan.stdout + study.plan.stderr

    def test_report_is_readable_outside(self, study: Study) -> None:
        """The table on the host has a row for each run, all of them finished, and the page lies beside it."""
        rows = list(csv.DictReader((study.out / "smoke" / "results.csv").read_text().splitlines()))

        assert [row["state"] for row in rows] == ["finished"] * RUNS
        assert (study.out / "smoke" / "report.html").stat().st_size > 0


class TestImage:
    """What the image is, apart from any study."""

    def test_runs_as_an_ordinary_user(self, image: str) -> None:
        """The default user is 1000, not root."""
        assert docker("run", "--rm", "--network=none", "--entrypoint=id", image, "-u").stdout == "1000\n"

    def test_shows_the_commands(self, image: str) -> None:
        """What follows the image's name are contilab's own arguments."""
        shown = docker("run", "--rm", "--network=none", image, "--help")

        assert shown.returncode == 0
        assert "plan" in shown.stdout

    def test_passes_exit_codes_on(self, image: str) -> None:
        """A manifest that is not there is the user's fault: exit code 2, as outside a container."""
        assert docker("run", "--rm", "--network=none", image, "plan", "manifests/nosuch.toml").returncode == 2

    def test_holds_fashion_mnist(self, image: str) -> None:
        """A study on Fashion-MNIST trains without a network: a runner finds the data in the image."""
        values = """'matrix.method=["naive"]' matrix.seed=[0] benchmark.train_per_task=100"""
        command = f"contilab plan manifests/fashion.toml {values} && contilab run"
        done = docker("run", "--rm", "--network=none", "--entrypoint=sh", image, "-c", command)

        assert done.returncode == 0, done.stderr

    def test_serves_a_user_it_does_not_know(self, image: str, tmp_path: Path) -> None:
        """With --user and a folder of that user as the store, what is written belongs to that user."""
        user = os.getuid() or 12345  # where root runs the tests, a number that no account has
        os.chown(tmp_path, user, -1)
        options = ("--user", f"{user}:{user}", "-v", f"{tmp_path}:/store")
        done = docker("run", "--rm", "--network=none", *options, image, "plan", "manifests/smoke.toml")

        assert done.returncode == 0, done.stderr
        assert {path.stat().st_uid for path in tmp_path.rglob("*")} == {user}

    def test_stops_when_told(self, image: str) -> None:
        """`docker stop` ends a runner that waits for work before the 10 s after which docker kills, with exit code 143."""
        container = docker("run", "-d", "--network=none", image, "run", "--wait").stdout.strip()
        try:
            wait_for_start(container)
            started = time.monotonic()
            docker("stop", container)
            seconds = time.monotonic() - started

            assert docker("wait", container).stdout == "143\n"
            assert seconds < 10
        finally:
            docker("rm", "-f", "-v", container)


def wait_for_start(container: str) -> None:
    """Return when a runner has said its first word, so that its handlers are there; at most 30 s."""
    for _ in range(150):
        logs = docker("logs", container)
        if logs.stdout + logs.stderr:
            return
        time.sleep(0.2)
