"""docker/slurm.sh with a stand-in for Apptainer that keeps its arguments; neither Slurm nor Apptainer is asked."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docker" / "slurm.sh"

# keeps each argument on a line of its own; `run` then lasts as long as the file `busy` is there, and says what signals it got
STAND_IN = r"""#!/usr/bin/env bash
printf '%s\n' "$(basename "$0")" "$@" >> "$RECORD"
[ "$(basename "$0")" = scontrol ] && exit 0
trap 'echo TERM >> "$RECORD"; [ -e "$DEAF" ] || exit 143' TERM
echo started >> "$RECORD"
while [ -e "$BUSY" ]; do read -rt 0.05 <> <(:); done
exit "${CODE:-0}"
"""


class Node:
    """A node of the cluster: a folder of submission, the stand-in programs, and what these were asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record = folder / "record"
        self.busy = folder / "busy"
        for name in ("apptainer", "scontrol"):
            program = folder / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(STAND_IN)
            program.chmod(0o755)
        (folder / "contilab.sif").touch()

    def submit(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start the script as Slurm does."""
        names = {"RECORD": self.record, "BUSY": self.busy, "DEAF": self.folder / "deaf", "SLURM_SUBMIT_DIR": self.folder}
        environment = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "SLURM_CPUS_PER_TASK": "4",
            "SLURM_JOB_ID": "77",
            **{name: str(path) for name, path in names.items()},
            **variables,
        }
        command = ["bash", str(SCRIPT), *arguments]
        return subprocess.Popen(command, cwd=self.folder, env=environment, stderr=subprocess.PIPE, text=True)

    def ended(self, *arguments: str, **variables: str) -> tuple[int, str]:
        """Run the script to its end: exit code and standard error."""
        job = self.submit(*arguments, **variables)
        _, told = job.communicate(timeout=30)
        return job.returncode, told

    def calls(self) -> list[list[str]]:
        """Return the arguments of each call of apptainer."""
        text = self.record.read_text() if self.record.exists() else ""
        return [call.split("\n")[1:] for call in text.split("started\n")[:-1]]

    def started(self) -> None:
        """Wait until the contained program runs."""
        wait_for(lambda: self.record.exists() and "started" in self.record.read_text())


def left(job: subprocess.Popen[str]) -> int:
    """Wait for the end of the script and return its exit code."""
    job.communicate(timeout=30)
    return job.returncode


def wait_for(holds: Callable[[], bool]) -> None:
    """Return once *holds* is true; fail after 20 s."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node; whatever still runs there ends with the test."""
    made = Node(tmp_path)
    yield made
    made.busy.unlink(missing_ok=True)


class TestText:
    """The script as a text."""

    def test_parses(self) -> None:
        """Bash accepts it."""
        assert subprocess.run(["bash", "-n", SCRIPT], check=False).returncode == 0

    @pytest.mark.parametrize("script", sorted(SCRIPT.parent.glob("*.sh")), ids=lambda path: path.name)
    def test_shellcheck(self, script: Path) -> None:
        """The linter shellcheck finds nothing in it, nor in the other scripts of the folder."""
        program = Path(sys.executable).parent / "shellcheck"
        checked = subprocess.run([program, script], capture_output=True, text=True, check=False)

        assert (checked.returncode, checked.stdout) == (0, "")

    def test_asks_slurm(self) -> None:
        """One core-limited task per runner, told to stop more than a minute before the time limit, and queued again."""
        lines = [line.split()[1] for line in SCRIPT.read_text().splitlines() if line.startswith("#SBATCH")]

        assert {"--array=0-3", "--ntasks=1", "--cpus-per-task=4", "--signal=B:USR1@90", "--requeue"} <= set(lines)

    def test_every_variable_is_documented(self) -> None:
        """Each variable that a user may set stands in the opening comment."""
        text = SCRIPT.read_text()
        head = "".join(line for line in text.splitlines() if line.startswith("#"))
        used = {name for name in ("IMAGE", "STORE", "MANIFEST", "DATA", "REQUEUE") if f"${{CONTILAB_{name}" in text}

        assert used == {name for name in ("IMAGE", "STORE", "MANIFEST", "DATA", "REQUEUE") if f"CONTILAB_{name} " in head}


class TestRunner:
    """One task of the array: one runner in the image."""

    def test_runs_the_image(self, node: Node) -> None:
        """The store is made and bound, the cores are told, and the arguments of sbatch reach `contilab run`."""
        code, told = node.ended("--study", "digits")

        assert (code, told) == (0, "")
        assert (node.folder / "store").is_dir()
        (call,) = node.calls()
        assert call[:4] == ["run", "--cleanenv", "--no-home", "--pwd"]
        assert call[-5:-1] == [str(node.folder / "contilab.sif"), "run", "--study", "digits"]
        assert {f"{node.folder / 'store'}:/store", "OMP_NUM_THREADS=4"} <= set(call)
        assert "--nv" not in call

    def test_plans_first(self, node: Node) -> None:
        """With a manifest, it is bound and planned before the run."""
        manifest = node.folder / "mine.toml"
        manifest.touch()
        code, _ = node.ended(CONTILAB_MANIFEST="mine.toml")

        plan, run = node.calls()
        assert code == 0
        assert f"{manifest}:/app/study.toml:ro" in plan
        assert (plan[-3:-1], run[-2:-1]) == (["plan", "study.toml"], ["run"])

    def test_a_refused_plan_runs_nothing(self, node: Node) -> None:
        """If `plan` fails, its exit code is that of the task."""
        (node.folder / "mine.toml").touch()

        assert node.ended(CONTILAB_MANIFEST="mine.toml", CODE="2")[0] == 2
        assert len(node.calls()) == 1

    def test_data_and_devices(self, node: Node) -> None:
        """Data sets are bound read-only; the GPUs that Slurm gave are handed in."""
        node.ended(CONTILAB_DATA="/data/sets", CUDA_VISIBLE_DEVICES="1")

        assert {"/data/sets:/data:ro", "CONTILAB_DATA=/data", "--nv", "CUDA_VISIBLE_DEVICES=1"} <= set(node.calls()[0])

    def test_passes_exit_codes_on(self, node: Node) -> None:
        """What contilab says is what Slurm hears, and nothing is queued again."""
        assert node.ended(CODE="3")[0] == 3
        assert "scontrol" not in node.record.read_text()

    @pytest.mark.parametrize(
        ("variables", "problem"),
        [
            ({"APPTAINER": "nosuch"}, "no nosuch on this node"),
            ({"CONTILAB_IMAGE": "/nosuch.sif"}, "there is no image /nosuch.sif"),
        ],
    )
    def test_says_what_is_missing(self, node: Node, variables: dict[str, str], problem: str) -> None:
        """Without the program or the image it says so and how to name it, with exit code 4."""
        code, told = node.ended(**variables)

        assert (code, problem in told, "hint: " in told) == (4, True, True)


class TestStop:
    """How a task ends before its work does."""

    def test_time_limit(self, node: Node) -> None:
        """Slurm's early signal reaches the contained program once, as SIGTERM; 143 is passed on, the job queued again."""
        node.busy.touch()
        job = node.submit()
        node.started()
        job.send_signal(signal.SIGUSR1)

        assert left(job) == 143
        lines = node.record.read_text().splitlines()
        assert lines.count("TERM") == 1
        assert lines[-3:] == ["scontrol", "requeue", "77"]

    def test_without_requeue(self, node: Node) -> None:
        """With CONTILAB_REQUEUE=0 it stays away."""
        node.busy.touch()
        job = node.submit(CONTILAB_REQUEUE="0")
        node.started()
        job.send_signal(signal.SIGUSR1)

        assert left(job) == 143
        assert "scontrol" not in node.record.read_text()

    def test_waits_for_what_saves(self, node: Node) -> None:
        """The script does not end before the contained program does, however often it is told to."""
        node.busy.touch()
        (node.folder / "deaf").touch()
        job = node.submit(CODE="143")
        node.started()
        job.send_signal(signal.SIGUSR1)
        wait_for(lambda: "TERM" in node.record.read_text())
        job.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        still = job.poll()
        node.busy.unlink()

        assert still is None
        assert left(job) == 143
        assert node.record.read_text().count("TERM\n") == 1

    @pytest.mark.slow
    def test_cancelled_shell(self, node: Node) -> None:
        """A SIGTERM that only the script got is handed on after the time in which contilab would have stopped by itself."""
        node.busy.touch()
        job = node.submit()
        node.started()
        job.send_signal(signal.SIGTERM)

        assert left(job) == 143
        assert "TERM" in node.record.read_text()
        assert "scontrol" not in node.record.read_text()
