"""Several workers: how many there are, how they end together, and what becomes of one that dies. Real processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from contilab.errors import Fault, StoreError
from contilab.hardware import gpus as gpus_module
from contilab.hardware.gpus import gpus
from contilab.plan.enqueue import enqueue
from contilab.runner.order import Order
from contilab.runner.staff import Staff, staff
from contilab.runner.tally import Verdict
from contilab.runner.workers import merged, settled
from contilab.store.retry import retry
from contilab.store.store import open_store

MANIFEST = """
name = "many"
profile = "smoke"
[matrix]
preset = ["synthetic_class"]
method = ["naive", "er"]
seed = [0, 1, 2]
[overrides]
"engine.max_members" = 1
"train.epochs" = 4
"""
ENDLESS = ["train.epochs=1_000_000", "matrix.method=['naive']", "matrix.seed=[0, 1]"]


@pytest.fixture
def cores(monkeypatch):
    """A machine of four processors, not shared out by anybody."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)))
    monkeypatch.setattr("contilab.hardware.threads.limits", lambda *_: type("Limits", (), {"cpus": None}))


@pytest.fixture
def started(program):
    """Start `contilab run` with words, and see that nothing is left of it."""
    processes = []

    def start(*words, environ=None):
        process = subprocess.Popen(
            [*program, "run", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "CONTILAB_DEBUG": "1", **(environ or {})},
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def until(process, event, count=1):
    """Read the log until *event* was logged *count* times and return those entries."""
    found = []
    for line in process.stderr:
        entry = json.loads(line)
        found += [entry] if entry["event"] == event else []
        if len(found) == count:
            return found
    raise AssertionError(f"the program ended with {process.wait()} before it said {event}")


def until_each(process, event, workers):
    """Read the log until each of *workers* has logged *event*."""
    left = set(workers)
    while left:
        left -= {entry["worker"] for entry in until(process, event)}


def records(root, pattern):
    """Return what the files *pattern* of the claims hold."""
    return [json.loads(path.read_text()) for path in sorted((root / "claims").glob(pattern))]


def is_alive(pid):
    """Tell whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class TestStaff:
    """How many workers there are."""

    @pytest.mark.parametrize(
        ("values", "order", "workers"),
        [
            ([], {}, 4),  # six groups for four processors
            (["matrix.seed=[0]"], {}, 2),  # two groups: one worker each
            (["matrix.seed=[0]", "engine.threads=2"], {}, 2),
            (["matrix.seed=[0]", "engine.threads=4"], {}, 1),
            (["matrix.seed=[0]", "matrix.method=['er']"], {}, 1),  # one group: one worker with all processors
            (["matrix.seed=[0]"], {"wait": True}, 4),  # more may come
            ([], {"share": 2}, 2),
            (["engine.threads=2"], {}, 2),
            (["engine.threads=8"], {}, 1),
        ],
    )
    def test_processors(self, cores, tmp_path, values, order, workers):
        """One per processor, or per group where these are fewer; what the plan or other runners take counts."""
        enqueue(tmp_path, MANIFEST, values)

        assert staff(Order(tmp_path, **order), None, find_gpus=tuple).workers == workers

    @pytest.mark.parametrize(
        ("seeds", "methods", "reason"),
        [
            ([0, 1, 2], ["naive", "er"], "one per processor: affinity 4"),
            ([0, 1, 2], ["er"], "one per open group, fewer than the 4 workers that fit: affinity 4"),
            ([0], ["er"], "there is no second group, so one worker gets all processors"),
        ],
    )
    def test_reason(self, cores, tmp_path, seeds, methods, reason):
        """The log says what the number of workers follows from."""
        enqueue(tmp_path, MANIFEST, [f"matrix.seed={seeds}", f"matrix.method={methods}"])

        assert staff(Order(tmp_path), None, find_gpus=tuple).reason.startswith(reason)

    @pytest.mark.parametrize("asked", [1, 3, 9])
    def test_asked_for(self, cores, tmp_path, asked):
        """What the user asks for is what there is."""
        enqueue(tmp_path, MANIFEST)

        assert staff(Order(tmp_path), asked, find_gpus=tuple).workers == asked

    def test_damaged_run(self, cores, tmp_path, monkeypatch):
        """A run that cannot be read stops nobody from working: it is told of where it would be trained."""
        enqueue(tmp_path, MANIFEST)
        next((tmp_path / "runs").iterdir()).write_text("{")
        monkeypatch.setattr("contilab.runner.staff.Profiles.all", lambda *_: ["an answer"])
        monkeypatch.setattr("contilab.runner.staff.workers", lambda *_: None)

        assert staff(Order(tmp_path), None, find_gpus=tuple).workers == 4

    def test_omp_num_threads(self, cores, tmp_path, monkeypatch):
        """Whoever sets OMP_NUM_THREADS shares out the processors himself."""
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        enqueue(tmp_path, MANIFEST)

        assert staff(Order(tmp_path), None, find_gpus=tuple).workers == 1

    def test_interpreter_out_of_reach(self, cores, tmp_path, monkeypatch):
        """A uid that may not start the interpreter again, which lies in another user's home, works by itself."""
        monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere" / "python"))
        enqueue(tmp_path, MANIFEST)

        assert staff(Order(tmp_path), None, find_gpus=tuple).workers == 1

    def test_little_memory(self, cores, tmp_path, monkeypatch):
        """There are no more workers than fit into the memory."""
        monkeypatch.setattr("contilab.runner.staff.memory_bytes", lambda: 2**30)
        enqueue(tmp_path, MANIFEST)

        assert staff(Order(tmp_path), None, find_gpus=tuple).workers == 2

    @pytest.mark.parametrize(
        ("device", "asked", "expected"),
        [
            (None, None, (2, ("3", "5"))),
            ("cuda", None, (2, ("3", "5"))),
            ("auto", 4, (4, ("3", "5"))),
            ("cuda:1", None, (4, ())),
            ("cpu", None, (4, ())),
        ],
    )
    def test_gpus(self, cores, tmp_path, device, asked, expected):
        """One worker per GPU, each of which sees only its own, unless a device was chosen."""
        enqueue(tmp_path, MANIFEST)
        found = staff(Order(tmp_path, device=device), asked, find_gpus=lambda: ("3", "5"))

        assert (found.workers, found.devices) == expected

    def test_environment(self):
        """GPUs are dealt out in turn."""
        assert Staff(3, "", ("3", "5")).environ(2) == {"CUDA_VISIBLE_DEVICES": "3"}
        assert Staff(3, "").environ(2) == {}

    def test_nothing_planned(self, tmp_path):
        """Where nothing is planned no worker is started, unless the order is to wait."""
        with pytest.raises(StoreError):
            staff(Order(tmp_path), None)

    @pytest.mark.parametrize(
        ("visible", "question", "expected"),
        [
            ("", "print(2)", ("0", "1")),
            ("4,7", "print(2)", ("4", "7")),
            ("", "print(0)", ()),
            ("", "raise SystemExit(1)", ()),
        ],
    )
    def test_gpus_are_asked_for(self, tmp_path, visible, question, expected):
        """Another process counts the devices, so that the parent needs no torch; without a driver nobody is asked."""
        (tmp_path / "driver").touch()
        environ = {"CUDA_VISIBLE_DEVICES": visible}

        assert gpus(environ, driver=tmp_path / "driver", question=question) == expected
        assert gpus(environ, driver=tmp_path / "none", question=question) == ()
        assert "torch" in gpus_module._QUESTION


class TestVerdicts:
    """How workers end together."""

    @pytest.mark.parametrize(
        ("codes", "code"),
        [([0, 0], 0), ([0, 3], 3), ([3, 6], 6), ([4, 4], 4), ([4, 0], 5), ([5, 3], 5), ([1, 5], 1), ([], 0)],
    )
    def test_worst(self, codes, code):
        """The worst exit code counts; a refused start of some is a fault on the way."""
        assert merged([Verdict(one) for one in codes]).code == code

    def test_faults_once(self):
        """What several found is told once."""
        fault = Fault("group a", "is cancelled")

        assert merged([Verdict(3, (fault,)), Verdict(3, (fault,))]).faults == (fault,)

    def test_done_after_all(self):
        """Where every run has a result in the end, what one worker could not do is no failure."""
        left = Verdict(3, (Fault("group a", "failed"),))

        assert settled(left, 8, 8) == Verdict(0, (), 8, 8)
        assert settled(left, 7, 8).code == 3
        assert settled(Verdict(1), 8, 8).code == 1


class TestWorkers:
    """Real ones."""

    def test_share_the_work(self, tmp_path):
        """Two workers train each run once, with a thread each, and the parent loads no torch."""
        enqueue(tmp_path, MANIFEST, ttl_s=60)
        program = (
            "import sys, pathlib\n"
            "from contilab.runner.order import Order\n"
            "from contilab.runner.progress import Lines\n"
            "from contilab.runner.signals import stop_on_signals\n"
            "from contilab.runner.staff import Staff\n"
            "from contilab.runner.workers import work\n"
            "with stop_on_signals() as stop:\n"
            "    verdict = work(Order(pathlib.Path(sys.argv[1])), Staff(2, 'asked for'), stop, Lines())\n"
            "print(*verdict, 'torch' in sys.modules)\n"
        )
        done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, timeout=60, check=True)
        threads = [json.loads(path.read_text())["threads"]["value"] for path in (tmp_path / "results").glob("*/env.json")]

        assert done.stdout.splitlines()[-1] == "0 () 6 6 False"
        assert len(records(tmp_path, "*/*.json")) == 6
        assert len({claim["runner"] for claim in records(tmp_path, "*/*.json")}) == 2
        assert threads == [1] * 6

    @pytest.mark.slow
    def test_sigterm(self, tmp_path, started):
        """SIGTERM reaches all workers: each keeps a checkpoint, releases its group and ends, exit code 143."""
        enqueue(tmp_path, MANIFEST, [*ENDLESS, "engine.execution=loop", "engine.checkpoint_seconds=0.2"])
        process = started("--store", tmp_path, "--workers", 2)
        until_each(process, "checkpoint", {0, 1})
        pids = {json.loads(path.read_text())["pid"] for path in (tmp_path / "runners").glob("*.json")}
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)
        after = [json.loads(line) for line in rest.splitlines()]
        events = {number: [entry["event"] for entry in after if entry.get("worker") == number] for number in (0, 1)}

        assert process.returncode == 143
        assert [own[own.index("group_released") - 1] for own in events.values()] == ["checkpoint"] * 2
        assert [end["kind"] for end in records(tmp_path, "*/*.end")] == ["released"] * 2
        assert len(pids) == 2
        assert not any(map(is_alive, pids))

    @pytest.mark.slow
    def test_killed_worker(self, tmp_path, started):
        """A worker that is killed is replaced, and its group goes on; killed parents take their workers with them."""
        enqueue(tmp_path, MANIFEST, ENDLESS)
        process = started("--store", tmp_path, "--workers", 2)
        pids = {json.loads(path.read_text())["pid"] for path in _runners(tmp_path, process)}
        victim = min(pids)
        os.kill(victim, signal.SIGKILL)
        died = until(process, "worker_died")[0]
        again = until(process, "training")[0]
        process.kill()
        process.communicate(timeout=30)
        now = {json.loads(path.read_text())["pid"] for path in (tmp_path / "runners").glob("*.json")}
        deadline = time.monotonic() + 10
        while any(map(is_alive, now)) and time.monotonic() < deadline:
            time.sleep(0.1)

        assert died["cause"].startswith("was killed by SIGKILL")
        assert died["replaced"]
        assert (again["worker"], again["attempt"]) == (died["worker"], 2)
        assert len(now) == 3
        assert not any(map(is_alive, now))
        assert [end["kind"] for end in records(tmp_path, "*/*.end")] == ["released"] * 2

    def test_workers_that_cannot_live(self, tmp_path, started):
        """Workers that die before they have begun anything are not replaced for ever: exit code 1."""
        enqueue(tmp_path, MANIFEST, ENDLESS)
        (tmp_path / "torch.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
        path = os.pathsep.join(
            filter(None, (str(tmp_path), os.environ.get("PYTHONPATH")))
        )  # an empty part would be the checkout
        process = started("--store", tmp_path, "--workers", 2, environ={"PYTHONPATH": path})
        _, err = process.communicate(timeout=60)

        assert process.returncode == 1
        assert "was killed by SIGKILL, as by a lack of memory again and again" in err
        assert records(tmp_path, "*/*.json") == []


def _runners(root, process):
    """Wait until both workers train and return the files that say who they are."""
    until(process, "training", 2)
    return list((root / "runners").glob("*.json"))


@pytest.mark.slow
class TestPoison:
    """Groups that kill whoever works on them."""

    def test_quarantine(self, tmp_path, started):
        """After three workers without progress each is left alone: exit code 3 names it, and after `retry` it is trained.

        On a slow machine the first attempt writes a checkpoint, which is progress: the fourth is then the last.
        """
        enqueue(tmp_path, MANIFEST, ["matrix.seed=[0]"])
        process = started("--store", tmp_path, "--workers", 2, environ={"CONTILAB_FAILPOINT": "output.half:KILL"})
        _, err = process.communicate(timeout=100)
        deaths = len(records(tmp_path, "*/*.json"))
        stopped = [json.loads(path.read_text()) for path in (tmp_path / "quarantine").iterdir()]
        released = retry(open_store(tmp_path)).groups
        again = started("--store", tmp_path, "--workers", 2)
        again.communicate(timeout=60)

        assert process.returncode == 3
        assert err.count("worker_died") == deaths
        assert [len(one["generations"]) for one in stopped] == [3, 3]
        assert [gid for gid in released if f"group {gid[:12]}: is in quarantine: 3 attempts" in err] == list(released)
        assert len(released) == 2
        assert again.returncode == 0
