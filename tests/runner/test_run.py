"""The runner, in this process: what it publishes, and how it ends."""

import errno
import json
import os
import signal
import threading
import tomllib
from pathlib import Path

import pytest
import structlog

from contilab import catalog
from contilab.errors import DataError, DeviceError, StoreError, UsageError
from contilab.plan.enqueue import enqueue
from contilab.runner import attempt as attempts
from contilab.runner import numerics, training
from contilab.runner.order import Order
from contilab.runner.progress import Lines
from contilab.runner.run import run
from contilab.runner.signals import StopFlag
from contilab.store.claimer import Claimer
from contilab.store.retry import retry
from contilab.store.status import counts, study_status
from contilab.store.store import open_store

MANIFEST = """
name = "small"
profile = "smoke"
[matrix]
preset = ["synthetic_class"]
method = ["naive", "joint", "ewc", "er"]
seed = [0, 1]
[overrides]
"model.hidden" = [4]
"benchmark.train_per_task" = 32
"benchmark.test_per_task" = 16
"engine.threads" = 1
"""
NO_SPACE = OSError(errno.ENOSPC, "No space left on device", "record.jsonl")


@pytest.fixture
def root(tmp_path):
    """A store with four groups of two runs."""
    enqueue(tmp_path / "store", MANIFEST, ttl_s=4)
    return tmp_path / "store"


@pytest.fixture
def broken(monkeypatch):
    """Make training of some methods raise."""

    def install(errors):
        real = training.train

        def train(runs, execution, watch, **rest):
            error = errors.get(runs[0].method.name)
            if error:
                raise error
            return real(runs, execution, watch, **rest)

        monkeypatch.setattr(training, "train", train)

    return install


def ended(root, **order):
    """Run in this process and return the verdict."""
    return run(Order(root, **order), StopFlag(), Lines())


def claims(root):
    """Return the claims of all groups."""
    return [json.loads(path.read_text()) for path in (root / "claims").glob("*/*.json")]


def ends(root):
    """Return how the attempts ended."""
    return sorted(json.loads(path.read_text())["kind"] for path in (root / "claims").glob("*/*.end"))


class TestRun:
    """A runner that is left alone."""

    def test_all_done(self, root):
        """Every planned run gets a result and every group one claim; a second runner finds nothing to do."""
        first = ended(root)
        second = ended(root)

        assert (first.code, first.done, first.wanted, first.faults) == (0, 8, 8, ())
        assert (second.code, second.done) == (0, 8)
        assert len(claims(root)) == 4
        assert ends(root) == ["done"] * 4

    def test_what_stands_next_to_a_result(self, root):
        """Each result has its configuration, the machine with all choices and reasons, and its own log."""
        ended(root)
        store = open_store(root)
        rid = store.study("small").rids[0]
        here = store.result_dir(rid)
        config = tomllib.loads((here / "config.toml").read_text())
        env = json.loads((here / "env.json").read_text())
        log = [json.loads(line) for line in (here / "log.jsonl").read_text().splitlines()]

        assert (config["rid"], config["seed"], config["model"]["hidden"]) == (rid, 0, [4])
        for choice in ("device", "threads", "execution", "precision", "compile"):
            assert env[choice]["value"]
            assert env[choice]["reason"]
        assert {"versions", "capabilities", "cgroup", "host"} <= env.keys()
        assert [entry["rid"] for entry in log if "rid" in entry] == [rid]
        assert {"group_started", "run_done"} <= {entry["event"] for entry in log}
        assert {"MANIFEST.json", "record.jsonl", "tensors.safetensors", "parameters.safetensors"} <= {
            path.name for path in here.iterdir()
        }

    def test_one_study_only(self, root):
        """With a study named, others are left alone."""
        enqueue(root, MANIFEST.replace('"small"', '"other"').replace("[0, 1]", "[7]"))

        assert ended(root, study="other").done == 4
        assert len(open_store(root).results()) == 4

    def test_threads_are_shared(self, root, monkeypatch):
        """Runners that share a machine take their part of its threads, and the result says so."""
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        enqueue(root, MANIFEST.replace('"small"', '"other"').replace('"engine.threads" = 1', "").replace("[0, 1]", "[7]"))
        ended(root, study="other", share=1000)
        rid = open_store(root).study("other").rids[0]
        threads = json.loads((root / "results" / rid / "env.json").read_text())["threads"]

        assert threads["value"] == 1
        assert "shared by 1000 workers" in threads["reason"]


class TestFailures:
    """Groups that do not end well."""

    def test_failing_group(self, root, broken):
        """A group that raises is tried three times and then named as quarantined, the others finish: exit code 3."""
        broken({"er": ZeroDivisionError("by zero")})
        verdict = ended(root)
        store = open_store(root)
        states = study_status(store, store.study("small")).values()
        end = next(json.loads(path.read_text()) for path in (root / "claims").glob("*/*.end") if "failed" in path.read_text())

        assert (verdict.code, verdict.done) == (3, 6)
        assert ["in quarantine" in fault.problem for fault in verdict.faults] == [True]
        assert "ZeroDivisionError: by zero" in verdict.faults[0].problem
        assert counts({str(place): status for place, status in enumerate(states)}) == {"done": 6, "quarantined": 2}
        assert "in train" in end["traceback"]
        assert ends(root) == ["done"] * 3 + ["failed"] * 3

    def test_retry(self, root, broken, monkeypatch):
        """What is in quarantine stays there until it is retried, and is then trained."""
        broken({"er": ZeroDivisionError("by zero")})
        ended(root)
        monkeypatch.undo()

        assert (ended(root).code, len(claims(root))) == (3, 6)
        retry(open_store(root))
        assert ended(root).code == 0

    def test_once_is_no_failure(self, root, monkeypatch):
        """A group that fails once and then ends well is no failure: exit code 0."""
        real, errors = training.train, [ZeroDivisionError("by zero")]

        def train(*args, **rest):
            if errors:
                raise errors.pop()
            return real(*args, **rest)

        monkeypatch.setattr(training, "train", train)
        verdict = ended(root)

        assert (verdict.code, verdict.faults) == (0, ())
        assert ends(root) == ["done"] * 4 + ["failed"]

    def test_missing_data(self, root, broken):
        """Missing data of one group are no failure of training; the others go on: exit code 5."""
        broken({"er": DataError("mnist", "not there", hint="set CONTILAB_DATA")})
        verdict = ended(root)

        assert (verdict.code, verdict.done) == (5, 6)
        assert verdict.faults[0].hint == "set CONTILAB_DATA"
        assert ends(root) == ["done", "done", "done", "env"]

    def test_missing_data_of_all(self, root, broken):
        """When the data of every group are missing nothing could start: exit code 4."""
        broken(dict.fromkeys(["naive", "joint", "ewc", "er"], DataError("mnist", "not there")))
        verdict = ended(root)

        assert verdict.code == 4
        assert len(verdict.faults) == 1

    def test_full_disk(self, root, broken):
        """After three faults of the disk in a row the runner gives up with exit code 5; no group is charged."""
        broken(dict.fromkeys(["naive", "joint", "ewc", "er"], NO_SPACE))

        assert ended(root).code == 5
        assert ends(root) == ["env"] * 3

    def test_lost_device(self, root, broken):
        """A lost device ends the runner at once, and no group is charged."""
        broken(dict.fromkeys(["naive", "joint", "ewc", "er"], RuntimeError("CUDA error: device-side assert triggered")))

        assert ended(root).code == 5
        assert ends(root) == ["env"]

    @pytest.mark.parametrize("error", [NO_SPACE, ZeroDivisionError("by zero")], ids=["of the disk", "of training"])
    def test_not_even_its_end(self, root, broken, monkeypatch, error):
        """Where not even the end of an attempt can be written it looks like a crash, and the runner ends: exit code 5."""
        broken(dict.fromkeys(["naive", "joint", "ewc", "er"], error))

        def refuse(*args, **kwargs):
            raise NO_SPACE

        monkeypatch.setattr("contilab.store.claim.put_new", refuse)
        verdict = ended(root)

        assert verdict.code == 5
        assert "No space left" in " ".join(fault.problem for fault in verdict.faults)
        assert (len(claims(root)), ends(root)) == (1, [])

    def test_publish_that_cannot_be_written(self, root, monkeypatch):
        """A disk that fails while results are written is a fault of the environment too."""

        def refuse(*args, **kwargs):
            raise NO_SPACE

        monkeypatch.setattr("contilab.store.claim.Claim.put_files", refuse)

        assert ended(root).code == 5
        assert open_store(root).results() == set()

    def test_store_that_turns_read_only(self, root, monkeypatch):
        """A store that is read-only when results are to be published is no failure of training: exit code 5."""

        def refuse(*args, **kwargs):
            raise StoreError("store", "the file system is read-only", hint="mount the volume writable")

        monkeypatch.setattr("contilab.store.claim.Claim.publish", refuse)
        verdict = ended(root)

        assert (verdict.code, {fault.hint for fault in verdict.faults}) == (5, {"mount the volume writable"})
        assert ends(root) == ["env"] * 3

    def test_claims_that_cannot_be_written(self, root, monkeypatch):
        """A disk that fails at the first claim does not allow a start: exit code 4."""

        def refuse(*args, **kwargs):
            raise NO_SPACE

        monkeypatch.setattr("contilab.store.claimer.put_new", refuse)

        assert ended(root).code == 4

    def test_a_fault_of_ours(self, root, monkeypatch):
        """Another error of the operating system is not disguised."""

        def refuse(*args, **kwargs):
            raise FileNotFoundError(errno.ENOENT, "no such file")

        monkeypatch.setattr("contilab.store.claimer.put_new", refuse)

        with pytest.raises(FileNotFoundError):
            ended(root)

    def test_other_numerics(self, root, monkeypatch):
        """Runs planned for other numerics are skipped, and said once: exit code 3."""
        real = numerics.numerics_tags
        monkeypatch.setattr(
            numerics,
            "numerics_tags",
            lambda entry, names: {**real(entry, names), **({"method": "er/9"} if names["method"] == "er" else {})},
        )
        verdict = ended(root)

        assert (verdict.code, verdict.done) == (3, 6)
        assert [fault.problem for fault in verdict.faults] == ["was planned for other numerics: method er/1 (here er/9)"]
        assert len(claims(root)) == 3

    def test_unknown_method(self, root, monkeypatch):
        """Runs of a method that this version does not have are skipped too."""
        others = {name: place for name, place in catalog.STRATEGIES.items() if name != "er"}
        monkeypatch.setitem(catalog.KINDS, "method", others)  # taken out and put back, "er" would stand at the end of the menu

        assert "does not have" in ended(root).faults[0].problem

    def test_unreadable_run(self, root):
        """A specification that is missing or of another version is named; all other runs are trained: exit code 3."""
        missing, newer, *_ = open_store(root).study("small").rids
        (root / "runs" / f"{missing}.json").unlink()
        (root / "runs" / f"{newer}.json").write_text('{"v": "contilab.run/9"}')
        verdict = ended(root)

        assert (verdict.code, verdict.done) == (3, 6)
        assert {missing, newer} == {Path(fault.place).stem for fault in verdict.faults}

    def test_run_without_group(self, root):
        """Planned runs that no group names are told of, for nobody trains them: exit code 3; planning again helps."""
        next((root / "groups").iterdir()).unlink()
        verdict = ended(root)
        enqueue(root, MANIFEST)

        assert (verdict.code, verdict.done) == (3, 6)
        assert "2 of the planned runs are in no group" in verdict.faults[0].problem
        assert ended(root).code == 0

    @pytest.mark.parametrize("what", ["groups", "studies"])
    def test_damaged_file(self, root, what):
        """One damaged group or plan stops nobody: it is named, all else is trained, exit code 3; planned again, all is done."""
        enqueue(root, MANIFEST.replace('"small"', '"other"').replace("[0, 1]", "[7]"))
        path = next((root / "groups").iterdir()) if what == "groups" else root / "studies" / "other" / "1.json"
        path.write_text('["half')
        verdict = ended(root)
        path.unlink()
        enqueue(root, MANIFEST)
        enqueue(root, MANIFEST.replace('"small"', '"other"').replace("[0, 1]", "[7]"))

        assert verdict.code == 3
        assert verdict.faults[0].place == str(path)
        assert "move it away and plan the study again" in verdict.faults[0].hint
        assert verdict.done in {"groups": (10, 11), "studies": (8,)}[what]
        assert ended(root).code == 0

    def test_something_else_in_its_place(self, root):
        """A file where the claims of a group should be stops that group only: exit code 3, and a way out."""
        gid = open_store(root).group_ids()[0]
        (root / "claims" / gid).write_text("")
        verdict = ended(root)
        (root / "claims" / gid).unlink()

        assert (verdict.code, verdict.done) == (3, 6)
        assert verdict.faults[0].place == str(root / "claims" / gid)
        assert verdict.faults[0].hint == "move it away, then run again"
        assert ended(root).code == 0

    def test_damaged_plan_alone(self, root):
        """Where no plan can be read the runner does not start."""
        (root / "studies" / "small" / "1.json").write_text("{")

        with pytest.raises(StoreError, match=r"1\.json: this version cannot read the file"):
            ended(root)

    def test_damaged_result(self, root):
        """A damaged result is named, not counted and never overwritten: exit code 3."""
        ended(root)
        rid = open_store(root).study("small").rids[0]
        (root / "results" / rid / "record.jsonl").write_text("")
        verdict = ended(root)

        assert (verdict.code, verdict.done) == (3, 7)
        assert rid in verdict.faults[0].place


class TestPlansMeanwhile:
    """Plans that are made while a runner is at work."""

    @pytest.fixture
    def planned_meanwhile(self, root, monkeypatch):
        """Make another plan as soon as the first claim stands."""

        def install(*values, name="small"):
            def claimed(*args):
                monkeypatch.undo()
                enqueue(root, MANIFEST.replace('"small"', f'"{name}"'), values)
                return attempts.attempt(*args)

            monkeypatch.setattr("contilab.runner.run.attempt", claimed)

        return install

    def test_new_runs(self, root, planned_meanwhile):
        """What is planned later is trained too."""
        planned_meanwhile("matrix.seed=[0, 1, 2]")

        assert (ended(root).done, len(open_store(root).results())) == (12, 12)

    def test_device_that_is_not_here(self, root, planned_meanwhile):
        """Runs for a device that this machine lacks are not claimed and are told of; the others go on: exit code 3."""
        planned_meanwhile("matrix.seed=[7]", "engine.device=cuda:99", name="other")
        verdict = ended(root)

        assert (verdict.code, verdict.done, verdict.wanted) == (3, 8, 12)
        assert "cuda:99" in verdict.faults[0].problem
        assert ends(root) == ["done"] * len(claims(root))

    def test_dropped_run(self, root, monkeypatch):
        """A run that a new plan drops between claim and training is trained as it was planned."""
        real = Claimer.claim_next
        later = iter([["matrix.seed=[5]"]])

        def claim_then_plan(*args, **kwargs):
            found = real(*args, **kwargs)
            for values in later:
                enqueue(root, MANIFEST, values)
            return found

        monkeypatch.setattr(Claimer, "claim_next", claim_then_plan)

        assert (ended(root).code, ended(root).done) == (0, 4)


class TestStart:
    """What is refused before anything is claimed."""

    def test_no_store(self, tmp_path):
        """Where no store is, the runner does not start: exit code 4."""
        with pytest.raises(StoreError):
            ended(tmp_path / "none")

    def test_nothing_planned(self, root):
        """Where nothing is planned, the runner does not start."""
        for path in (root / "studies").glob("*/*"):
            path.unlink()

        with pytest.raises(StoreError, match="nothing is planned"):
            ended(root)

    def test_unknown_study(self, root):
        """An unknown study is the user's mistake."""
        with pytest.raises(UsageError, match="it has small"):
            ended(root, study="smal")

    def test_missing_device(self, root):
        """A device that is not there is refused before any claim."""
        with pytest.raises(DeviceError):
            ended(root, device="cuda:99")
        assert claims(root) == []

    def test_missing_device_of_a_manifest(self, tmp_path):
        """So is one that a manifest asks for, unless the command line says otherwise."""
        enqueue(tmp_path, MANIFEST, ["engine.device=cuda:99", "matrix.method=['naive']"])

        with pytest.raises(DeviceError):
            ended(tmp_path)
        assert ended(tmp_path, device="cpu").code == 0


class TestIdle:
    """A runner that waits for others."""

    @pytest.fixture
    def waiting(self, root):
        """Wait for work for half a second, with all work done, and return what is logged."""

        def wait():
            ended(root)
            with structlog.testing.capture_logs() as log:
                ended(root, wait=True, max_seconds=0.5)
            return {entry["event"]: entry for entry in log}

        return wait

    def test_collects(self, root, waiting):
        """It removes what nobody needs and is more than a day old, and says so."""
        temp = root / "runs" / ".tmp-0123456789abcdef"
        temp.write_text("half")
        os.utime(temp, (0, 0))

        assert waiting()["collected"]["temps"] == 1
        assert not temp.exists()

    def test_cannot_collect(self, waiting, monkeypatch):
        """Where that is not possible it waits all the same."""

        def refuse(_):
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr("contilab.runner.run.collect", refuse)

        assert "Permission denied" in waiting()["not_collected"]["error"]


class TestStop:
    """A runner that is told to stop."""

    def test_within_training(self, root, monkeypatch):
        """A stop while a group is trained releases it, with the exit code of the signal; the next runner does all."""
        stop = StopFlag()
        monkeypatch.setattr(Lines, "step", lambda *_: stop.set(signal.SIGTERM))
        verdict = run(Order(root), stop, Lines())
        monkeypatch.undo()

        assert (verdict.code, verdict.done) == (143, 0)
        assert ends(root) == ["released"]
        assert ended(root).code == 0

    def test_end_of_a_cancelled_group(self, root, monkeypatch):
        """A runner that cannot even write that its group was cancelled ends with exit code 5, too."""

        def refuse(*args, **kwargs):
            raise NO_SPACE

        monkeypatch.setattr("contilab.store.claim.Claim.is_cancelled", lambda _: True)
        monkeypatch.setattr("contilab.store.claim.put_new", refuse)

        assert ended(root).code == 5
        assert len(claims(root)) == 1

    def test_taken_over(self, root, monkeypatch):
        """An attempt that another runner has followed ends as superseded, and is nobody's failure."""
        answers = iter([True] * 3)  # asked within training, before a last checkpoint, and when training has stopped
        monkeypatch.setattr("contilab.store.claim.Claim.is_superseded", lambda _: next(answers, False))

        assert ended(root).code == 0
        assert ends(root) == ["done"] * 4 + ["superseded"]

    def test_time_over(self, root):
        """When the time is over with work left the exit code is 6; without work left it is 0."""
        assert ended(root, max_seconds=0).code == 6
        assert claims(root) == []
        ended(root)
        assert ended(root, max_seconds=0).code == 0

    def test_waits_for_a_plan(self, tmp_path, monkeypatch):
        """With wait a runner waits for a plan, trains it, and waits for more until it is told to stop."""
        root, stop = tmp_path / "store", StopFlag()
        monkeypatch.setattr("contilab.runner.order.POLL_SECONDS", 0.05)

        def plan_then_stop():
            enqueue(root, MANIFEST, ["matrix.method=['naive']"], ttl_s=1)
            while len(open_store(root).results()) < 2:
                stop.wait(0.05)
            stop.set(signal.SIGINT)

        threading.Timer(0.1, plan_then_stop).start()
        verdict = run(Order(root, wait=True), stop, Lines())

        assert (verdict.code, verdict.done) == (130, 2)

    def test_waits_no_longer_than_asked(self, tmp_path):
        """Waiting for a plan ends with the time."""
        assert ended(tmp_path / "none", wait=True, max_seconds=0.1).code == 6

    @pytest.mark.timeout(30)
    def test_waits_no_longer_for_work(self, root):
        """Waiting for work ends with the time too: with everything done it is exit code 0."""
        ended(root)

        assert ended(root, wait=True, max_seconds=0.1).code == 0
