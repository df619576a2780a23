"""Stores with plans in them, runners in processes of their own, and the offline checker of what they left."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from contilab.disk.failpoint import VARIABLE
from contilab.disk.read import names
from contilab.spec.run import Run
from contilab.spec.sections import Benchmark, Data, Eval, Execution, Numerics, Plugin, Train
from contilab.spec.study import Cell, Study
from contilab.store.claimer import Claimer
from contilab.store.generation import generation
from contilab.store.layout import numbers
from contilab.store.mount import file_system
from contilab.store.result import altered, complete
from contilab.store.store import create_store

WORKER = Path(__file__).parent / "worker.py"
MEMORY = Path("/dev/shm")  # noqa: S108  a tmpfs on every Linux


def a_run(seed):
    """Return a run that differs from others by its seed."""
    return Run(
        benchmark=Benchmark(name="split_digits", scenario="class"),
        data=Data(name="digits", digest="0" * 64),
        model=Plugin(name="mlp", settings={"hidden": [8, 8]}),
        optim=Plugin(name="sgd", settings={"lr": 0.1}),
        train=Train(epochs=1),
        method=Plugin(name="naive"),
        memory=None,
        eval=Eval(),
        engine=Numerics(),
        numerics={"engine": "engine/1"},
        seed=seed,
    )


def a_study(runs, name="study"):
    """Return a study of one cell with *runs*."""
    cell = Cell(
        preset="split_digits_class",
        benchmark="split_digits",
        scenario="class",
        method="naive",
        sweep={},
        execution=Execution(),
        runs={run.seed: run.rid for run in runs},
    )
    return Study(name=name, manifest=f'name = "{name}"\n', values=(), cells=(cell,))


class Planned:
    """A store with *groups* groups of *members* runs each, wanted by one study."""

    def __init__(self, root, *, groups=1, members=1, ttl_s=1.0):
        self.root = root
        self.store = create_store(root, ttl_s)
        self.runs = [a_run(seed) for seed in range(groups * members)]
        self.rids = [run.rid for run in self.runs]
        self.store.add_runs(self.runs)
        self.gids = self.store.add_groups([self.rids[at : at + members] for at in range(0, len(self.rids), members)])
        self.study = a_study(self.runs)
        self.store.add_study(self.study)

    def end(self, n=1):
        """Return what the `.end` of attempt *n* at the first group says."""
        return json.loads(self.store.layout.end(self.gids[0], n).read_bytes())

    def published(self):
        """Return every published file with its bytes."""
        results = self.store.layout.results
        return {str(path.relative_to(results)): path.read_bytes() for path in sorted(results.rglob("*")) if path.is_file()}


def build_and_publish(claim):
    """Build and publish the results of *claim*; return what `publish` says."""
    for rid in claim.rids:
        claim.put_files(rid, {"numbers": rid.encode()})
    return claim.publish(dict.fromkeys(claim.rids, "finished"), frozenset({"numbers"}))


COUNTS = dict.fromkeys(("stores", "results", "kills", "pauses", "failpoints", "torn", "doubled", "lost"), 0)


def pytest_terminal_summary(terminalreporter):
    """Say what the tests did to runners, and what the checker found."""
    if COUNTS["stores"]:
        terminalreporter.write_line("stores of tests: " + ", ".join(f"{count} {name}" for name, count in COUNTS.items()))


class Worker:
    """A runner process, by the command *under*; `send` gives it a store, `answer` waits for what it did there."""

    def __init__(self, *arguments, failpoint="", under=()):
        environment = {**os.environ, VARIABLE: failpoint}
        command = [*under, sys.executable, str(WORKER), *arguments]
        COUNTS["failpoints"] += bool(failpoint)
        COUNTS["kills"] += failpoint.endswith(":KILL")
        COUNTS["pauses"] += failpoint.endswith(":STOP")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def wait_until_ready(self):
        """Wait for the end of its imports."""
        assert self.process.stdout.readline() == "ready\n"

    def send(self, root):
        """Let it work on the store at *root*."""
        self.process.stdin.write(f"{root}\n")
        self.process.stdin.flush()

    def answer(self):
        """Wait until it has worked, and return what it did."""
        return json.loads(self.process.stdout.readline())

    def kill(self):
        """Kill it wherever it is."""
        COUNTS["kills"] += self.process.poll() is None
        self.close()

    def close(self):
        """End it."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def place(request, tmp_path):
    """A directory; with the parameter, or the PLACE of a file, "disk" or "memory" one that lies there. Says where it is."""
    directory, asked = tmp_path, getattr(request, "param", getattr(request.module, "PLACE", None))
    if asked == "memory" and (file_system(MEMORY) != "tmpfs" or not os.access(MEMORY, os.W_OK)):
        pytest.skip(f"{MEMORY} is no tmpfs that may be written to")
    if asked:
        directory = Path(tempfile.mkdtemp(prefix="contilab-test-", dir={"disk": None, "memory": MEMORY}[asked]))
    print(f"{directory} is on {file_system(directory)}")  # noqa: T201  shown with a failure, and by pytest -rA
    yield directory
    if asked:
        shutil.rmtree(directory)


@pytest.fixture
def plan(place):
    """Make planned stores, each in its own directory."""
    made = []

    def make(**settings):
        made.append(Planned(place / f"store{len(made)}", **settings))
        return made[-1]

    return make


@pytest.fixture
def handed_on(plan):
    """Make planned stores whose first group was begun, has a checkpoint, and was released."""

    def make(**settings):
        planned = plan(**settings)
        with Claimer(planned.store, runner="first", versions={}).claim_next() as claim:
            claim.save_checkpoint(5, {"state": b"at five", "weights": bytes(range(256))})
            claim.end("released")
        return planned

    return make


@pytest.fixture
def planned_at():
    """Make a planned store in a given directory."""
    return Planned


@pytest.fixture
def drained(plan):
    """A store whose two runs have results."""
    planned = plan(members=2)
    runner = Claimer(planned.store, runner="runner", versions={})
    build_and_publish(runner.claim_next())
    runner.close()
    return planned


@pytest.fixture
def claimer():
    """Make runners by name."""

    def make(planned, name="one"):
        return Claimer(planned.store, runner=name, versions={"contilab": "0"})

    return make


@pytest.fixture
def finish():
    """Build and publish the results of a claim; what `publish` says is returned."""
    return build_and_publish


@contextmanager
def workers():
    """Start runner processes; end them afterwards."""
    started = []

    def start(*arguments, failpoint="", under=()):
        started.append(Worker(*arguments, failpoint=failpoint, under=under))
        return started[-1]

    yield start
    for worker in started:
        worker.close()


@pytest.fixture
def start_worker():
    """Start runner processes for one test."""
    with workers() as start:
        yield start


@pytest.fixture(scope="module")
def start_shared_worker():
    """Start runner processes that several tests send to their stores."""
    with workers() as start:
        yield start


@pytest.fixture
def check():
    """Return the checker: what is wrong with a drained store, given what its runners said; nothing if all is right."""
    return _wrongs


def _wrongs(planned, answers, *, all_told=True):
    layout = planned.store.layout
    COUNTS["stores"] += 1
    COUNTS["results"] += len(planned.rids)
    told = [(claim["gid"], claim["n"], answer["runner"]) for answer in answers for claim in answer["claims"]]
    landed = [rid for answer in answers for claim in answer["claims"] for rid in claim["landed"]]
    wrongs = [f"{rid} landed twice" for rid in set(landed) if landed.count(rid) > 1]
    COUNTS["doubled"] += len(wrongs)
    for gid in planned.gids:
        found = numbers(names(layout.claims(gid)), ".json")
        if found != list(range(1, len(found) + 1)):
            wrongs.append(f"{gid} has gaps: {found}")
        owners = {(gid, n, generation(layout, gid, n).runner) for n in found}
        if (all_told and owners != {claim for claim in told if claim[0] == gid}) or len(told) != len(set(told)):
            wrongs.append(f"{gid} was claimed by {owners}, told was {told}")
    for rid in planned.rids:
        manifest = complete(layout.result(rid), rid)
        if manifest is None:
            COUNTS["torn" if os.path.lexists(layout.result(rid)) else "lost"] += 1
            wrongs.append(f"{rid} has no complete result")
        elif altered(layout.result(rid), manifest):
            COUNTS["torn"] += 1
            wrongs.append(f"{rid} is altered")
        elif generation(layout, manifest.gid, manifest.n).runner != manifest.runner:
            wrongs.append(f"{rid} came from no claim")
    return wrongs + [str(record) for record in planned.store.mismatches()]
