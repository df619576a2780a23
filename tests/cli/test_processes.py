"""The program as users and containers start it: real processes, real signals."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from contilab.plan.enqueue import enqueue
from contilab.store.store import open_store

MANIFEST = """
name = "many"
profile = "smoke"
[matrix]
preset = ["synthetic_class"]
method = ["naive", "er"]
seed = [0, 1, 2, 3]
[overrides]
"engine.max_members" = 1
"train.epochs" = 8
"""
ENDLESS = """
name = "endless"
profile = "smoke"
[matrix]
preset = ["synthetic_class"]
method = ["naive"]
seed = [0]
[overrides]
"train.epochs" = 1_000_000
"""


@pytest.fixture
def started(program):
    """A function that starts the program."""

    def start(*words, environ=None):
        return subprocess.Popen(
            [*program, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(environ or {})},
        )

    return start


def wait_for(process, stream, text) -> None:
    """Read lines of *stream* until one holds *text*."""
    for line in stream:
        if text in line:
            return
    raise AssertionError(f"the program ended with {process.wait()} before it said {text}")


def records(root, pattern):
    """Return what the files *pattern* of the claims hold."""
    return [json.loads(path.read_text()) for path in sorted((root / "claims").glob(pattern))]


class TestTwoRunners:
    """Runners that share a store."""

    @pytest.mark.slow
    def test_share_the_work(self, tmp_path, started):
        """Two processes train each run once, both have a part of it, and both end once all is done."""
        enqueue(tmp_path, MANIFEST, ttl_s=4)  # who waits for the other looks again after a quarter of it
        both = [started("run", "--store", tmp_path) for _ in range(2)]
        told = [process.communicate(timeout=60) for process in both]

        assert [process.returncode for process in both] == [0, 0]
        assert len(records(tmp_path, "*/*.json")) == 8
        assert len({claim["runner"] for claim in records(tmp_path, "*/*.json")}) == 2
        assert {end["kind"] for end in records(tmp_path, "*/*.end")} == {"done"}
        assert len(open_store(tmp_path).results()) == 8
        assert all("8 of 8 runs have a result" in out for out, _ in told)
        assert all("event" in json.loads(line) for _, log in told for line in log.splitlines())


class TestStreams:
    """Readers of the output that are not there."""

    @pytest.mark.parametrize(
        "redirection", ["<&- >&- 2>&-", *(pytest.param(one, marks=pytest.mark.slow) for one in ("2>/dev/full", ">/dev/full"))]
    )
    def test_training_goes_on(self, tmp_path, redirection, program):
        """Output that cannot be written is lost, the results are not, and the exit code is that of the work."""
        enqueue(tmp_path, MANIFEST, ["matrix.method=['naive']", "train.epochs=1", "engine.max_members=4"])
        shell = ["sh", "-c", f'exec "$@" {redirection}', "sh", *program, "run", "--store", str(tmp_path)]
        environ = {**os.environ, "OMP_NUM_THREADS": "1"}

        assert subprocess.run(shell, capture_output=True, check=False, timeout=60, env=environ).returncode == 0
        assert len(open_store(tmp_path).results()) == 4


class TestSignals:
    """A runner that is told to stop, or killed."""

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_during_import(self, number):
        """A signal while the program is still loading ends it with that signal's exit code, and without a traceback."""
        loading = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
from contilab.cli.main import main
class Loading:
    def find_spec(self, name, path, target=None):
        if name == "contilab.cli.app":
            os.kill(os.getpid(), {int(number)})
sys.meta_path.insert(0, Loading())
main()"""
        ended = subprocess.run([sys.executable, "-c", loading], capture_output=True, text=True, check=False, timeout=60)

        assert (ended.returncode, ended.stdout, ended.stderr) == (128 + number, "", "")

    @pytest.mark.slow
    def test_sigterm_in_training(self, tmp_path, started):
        """SIGTERM while a group is trained: released by the runner itself, exit code 143, no attempt charged."""
        enqueue(tmp_path, ENDLESS)
        process = started("run", "--store", tmp_path, environ={"CONTILAB_DEBUG": "1"})
        wait_for(process, process.stderr, '"training"')
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)

        assert process.returncode == 143
        assert '"group_released"' in log
        assert [end["kind"] for end in records(tmp_path, "*/*.end")] == ["released"]

    def test_sigterm_at_the_start(self, tmp_path, started):
        """SIGTERM while torch is still being imported is not lost: exit code 143, and nothing is claimed."""
        enqueue(tmp_path, ENDLESS)
        process = started("run", "--store", tmp_path)
        wait_for(process, process.stdout, "store: ")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)

        assert process.returncode == 143
        assert records(tmp_path, "*/*.json") == []

    @pytest.mark.slow
    def test_sigkill(self, tmp_path, started):
        """After SIGKILL the next runner goes on by itself, at once: no unlocking, no waiting for the time to live."""
        enqueue(tmp_path, ENDLESS)
        process = started("run", "--store", tmp_path, environ={"CONTILAB_DEBUG": "1"})
        wait_for(process, process.stderr, '"training"')
        process.kill()
        process.communicate(timeout=30)
        following = started("run", "--store", tmp_path, "--max-seconds", 3)
        following.communicate(timeout=60)

        assert following.returncode == 6
        assert [claim["n"] for claim in records(tmp_path, "*/*.json")] == [1, 2]


@pytest.fixture(scope="module")
def thousand(tmp_path_factory):
    """A store with 1,000 runs, half of them with a result; status writes nothing, so its tests share it."""
    root = tmp_path_factory.mktemp("thousand")
    enqueue(root, MANIFEST, ["matrix.seed=[" + ",".join(map(str, range(500))) + "]", "engine.max_members=8"])
    for rid in open_store(root).study("many").rids[:500]:
        place = root / "results" / rid
        place.mkdir()
        files = {name: {"sha256": "", "size": 2, "compared": False} for name in ("record.jsonl", "env.json", "log.jsonl")}
        for name in files:
            (place / name).write_text("{}")
        who = {"rid": rid, "gid": "0" * 64, "n": 1, "runner": "r", "state": "finished", "circumstances": {}, "acc": None}
        (place / "MANIFEST.json").write_text(json.dumps({**who, "files": files}))
    return root


class TestStatus:
    """contilab status on a large store."""

    def test_answers_at_once(self, thousand, monkeypatch, started):
        """It answers in less than half a second, start of the program included."""
        for name in [name for name in os.environ if name.startswith("COV")]:
            monkeypatch.delenv(name)  # measuring coverage would be measured too
        used = []
        for _ in range(3):
            process = started("status", "--store", thousand)
            assert "500 of 1000 runs have a result" in process.stdout.read()
            _, _, usage = os.wait4(process.pid, 0)
            process.returncode = 0
            process.stdout.close()
            process.stderr.close()
            used.append(usage.ru_utime + usage.ru_stime)

        # processor time, because other processes of a busy machine only ever add to the time that passes; it reads from memory
        assert min(used) < 0.5

    def test_closed_pipe(self, thousand, started):
        """When the reader of its output goes away, it ends without a word."""
        process = started("status", "--json", "--store", thousand)
        process.stdout.read(10)
        process.stdout.close()

        assert process.stderr.read() == ""
        assert process.wait(timeout=30) == -signal.SIGPIPE
        process.stderr.close()


class TestAccount:
    """A user whom the system does not know."""

    @pytest.mark.slow
    @pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv to change the user")
    def test_no_account_and_no_home(self, tmp_path, program):
        """With a uid without account and without HOME, plan and run work."""
        for part in takewhile(lambda path: not path.stat().st_mode & stat.S_IXOTH, (tmp_path, *tmp_path.parents)):
            part.chmod(0o777)
        (tmp_path / "m.toml").write_text(MANIFEST)
        environ = {key: value for key, value in os.environ.items() if key not in ("HOME", "USER", "LOGNAME")}
        # it may read everything, so that the interpreter starts wherever it lies
        reads = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
        other = ["setpriv", "--reuid", "4242", "--regid", "4242", "--clear-groups", *reads]
        for words in (["plan", str(tmp_path / "m.toml")], ["run"]):
            done = subprocess.run(
                [*other, *program, *words, "--store", str(tmp_path / "store")],
                env=environ,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
                cwd="/",
            )
            assert done.returncode == 0, done.stderr

        assert (tmp_path / "store" / "format.json").stat().st_uid == 4242


class TestDemo:
    """contilab demo."""

    @pytest.mark.slow
    def test_ends_with_a_table(self, tmp_path, started):
        """In well under 90 s: accuracies that make sense, and the path of the report, which is there."""
        process = started("demo", "--store", tmp_path)
        out, err = process.communicate(timeout=90)
        means = {line.split()[0]: float(line.split()[1]) for line in out.splitlines() if "±" in line}
        page = Path(next(line for line in out.splitlines() if line.startswith("report: ")).removeprefix("report: "))

        assert process.returncode == 0, err
        assert means["naive"] == pytest.approx(20, abs=2)
        assert means["joint"] > 85
        assert means["er"] > 70
        assert page.stat().st_size > 10_000
