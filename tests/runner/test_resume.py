"""Going on from a checkpoint: what a runner keeps when it is stopped, and what the next one makes of it."""

import json
import shutil
import signal
import time

import pytest
import structlog
from safetensors.numpy import load_file

from contilab.plan.enqueue import enqueue
from contilab.runner import resumption, training
from contilab.runner.order import Order
from contilab.runner.progress import Lines
from contilab.runner.run import run
from contilab.runner.signals import StopFlag
from contilab.store.cancel import cancel
from contilab.store.store import open_store

MANIFEST = """
name = "one"
profile = "smoke"
[matrix]
preset = ["synthetic_class"]
method = ["er"]
seed = [0, 1]
[overrides]
"model.hidden" = [4]
"train.epochs" = 20
"engine.threads" = 1
"engine.execution" = "loop"
"engine.checkpoint_seconds" = 3600
"""


@pytest.fixture
def root(tmp_path):
    """A store with one group of two runs, which keeps a checkpoint where it is stopped."""
    enqueue(tmp_path / "store", MANIFEST, ttl_s=4)
    return tmp_path / "store"


@pytest.fixture
def interrupted(monkeypatch):
    """Run a store until the group has done some chunks, and then stop by *how* (a function of the stop flag)."""

    def until(root, chunks, how=lambda flag: flag.set(signal.SIGTERM)):
        stop, seen = StopFlag(), []

        def step(_, progress):
            seen.append(progress.step)
            if len(seen) == chunks:
                how(stop)

        with monkeypatch.context() as patch:
            patch.setattr(Lines, "step", step)
            return run(Order(root), stop, Lines())

    return until


def logged(root, **order):
    """Run to the end and return the verdict and what was logged."""
    with structlog.testing.capture_logs() as log:
        verdict = run(Order(root, **order), StopFlag(), Lines())
    return verdict, {entry["event"]: entry for entry in log}


def tensors(root):
    """Return all tensors of all results."""
    places = sorted((root / "results").iterdir())
    return {
        (place.name, file, name): value.tobytes()
        for place in places
        for file in ("tensors.safetensors", "parameters.safetensors")
        for name, value in load_file(place / file).items()
    }


def ends(root):
    """Return how the attempts ended."""
    return [json.loads(path.read_text())["kind"] for path in sorted((root / "claims").glob("*/*.end"))]


def checkpointed(root, interrupted):
    """Stop the group with two checkpoints behind it; who goes on with it keeps none (which is slow on a busy disk)."""
    enqueue(root, MANIFEST.replace("3600", "0"))
    interrupted(root, 4)
    enqueue(root, MANIFEST)


def refusing(monkeypatch, times):
    """Let the engine miss a file of the first checkpoints that it is given."""
    real, left = training.train, [None] * times

    def train(runs, execution, watch, *, resume=None, **rest):
        if resume and left:
            left.pop()
            resume = {name: data for name, data in resume.items() if not name.startswith(runs[0].rid)}
        return real(runs, execution, watch, resume=resume, **rest)

    monkeypatch.setattr(training, "train", train)


class TestResume:
    """A runner that follows another one."""

    def test_same_bits(self, root, interrupted, tmp_path):
        """Stopped twice and resumed, in and between tasks, a group has the bits of one that was never stopped."""
        shutil.copytree(root, tmp_path / "calm")
        codes = [interrupted(root, chunks).code for chunks in (2, 3)]
        verdict, log = logged(root)
        run(Order(tmp_path / "calm"), StopFlag(), Lines())

        assert (codes, verdict.code) == ([143, 143], 0)
        assert ends(root) == ["released", "released", "done"]
        assert log["resumed"]["step"] > 0
        assert tensors(root) == tensors(tmp_path / "calm")

    def test_damaged(self, root, interrupted):
        """The newest checkpoint damaged, the one before it is used, and both are named in the log."""
        checkpointed(root, interrupted)
        old, new = sorted((root / "work").glob("*/1/ckpt-*"), key=lambda path: int(path.name[5:]))
        (new / "state.json").write_bytes(b"")
        verdict, log = logged(root)

        assert verdict.code == 0
        assert log["checkpoint_damaged"]["path"] == str(new)
        assert log["resumed"]["step"] == int(old.name[5:])

    def test_nothing_but_damaged(self, root, interrupted):
        """Where no checkpoint is whole, training begins anew, and says so."""
        interrupted(root, 4)
        for path in (root / "work").glob("*/1/ckpt-*/state.json"):
            path.unlink()
        verdict, log = logged(root)

        assert verdict.code == 0
        assert "begins anew" in log["checkpoint_damaged"]["used"]
        assert "resumed" not in log

    def test_refused(self, root, interrupted, monkeypatch):
        """A checkpoint that does not fit what is trained is told of, and training begins anew; the result says so."""
        interrupted(root, 2)
        refusing(monkeypatch, times=1)
        verdict, log = logged(root)
        env = json.loads(next((root / "results").glob("*/env.json")).read_text())

        assert verdict.code == 0
        assert "it is missing" in log["checkpoint_refused"]["reason"]
        assert log["checkpoint_refused"]["used"] == "none, begins anew"
        assert "it is missing" in env["checkpoints_passed_over"][0]["reason"]
        assert "resumed" not in log
        assert "kept from" not in env["threads"]["reason"]

    @pytest.mark.parametrize("times", [1, 2])
    def test_one_after_the_other(self, root, interrupted, monkeypatch, tmp_path, times):
        """The newest checkpoint refused, the one before it is tried, at last none; the bits are the same each time."""
        shutil.copytree(root, tmp_path / "calm")
        run(Order(tmp_path / "calm"), StopFlag(), Lines())
        checkpointed(root, interrupted)
        old, new = sorted(int(path.name[5:]) for path in (root / "work").glob("*/1/ckpt-*"))
        refusing(monkeypatch, times=times)
        with structlog.testing.capture_logs() as log:
            verdict = run(Order(root), StopFlag(), Lines())
        refused = [(entry["step"], entry["used"]) for entry in log if entry["event"] == "checkpoint_refused"]
        resumed = [entry["step"] for entry in log if entry["event"] == "resumed"]
        env = json.loads(next((root / "results").glob("*/env.json")).read_text())
        passed_over = [one["checkpoint"] for one in env["checkpoints_passed_over"]]

        assert verdict.code == 0
        assert refused == [(new, f"step {old}"), (old, "none, begins anew")][:times]
        assert resumed == [old][: 2 - times]
        assert passed_over == [f"step {step} of attempt 1" for step in (new, old)][:times]
        assert tensors(root) == tensors(tmp_path / "calm")

    def test_refused_before_it_is_loaded(self, root, interrupted):
        """So is one without the name of the machine that wrote it: a checkpoint of another version."""
        checkpointed(root, interrupted)
        old, new = sorted((root / "work").glob("*/1/ckpt-*"), key=lambda path: int(path.name[5:]))
        manifest = json.loads((new / "MANIFEST.json").read_text())
        del manifest["files"]["machine.json"]
        (new / "MANIFEST.json").write_text(json.dumps(manifest))
        verdict, log = logged(root)

        assert verdict.code == 0
        assert log["checkpoint_refused"]["used"] == f"step {int(old.name[5:])}"
        assert log["resumed"]["step"] == int(old.name[5:])

    def test_passed_over_by_a_predecessor(self, root, interrupted, monkeypatch):
        """What an attempt passed over stands in the result too when another one goes on from its checkpoints."""
        interrupted(root, 2)
        with monkeypatch.context() as patch:
            refusing(patch, times=1)
            interrupted(root, 4)
        verdict, log = logged(root)
        env = json.loads(next((root / "results").glob("*/env.json")).read_text())

        assert verdict.code == 0
        assert "checkpoint_refused" not in log
        assert "it is missing" in env["checkpoints_passed_over"][0]["reason"]

    def test_another_machine(self, root, interrupted, monkeypatch):
        """On another machine training goes on all the same, and the result says that its circumstances changed."""
        interrupted(root, 2)
        monkeypatch.setattr(resumption, "fingerprint", lambda: "another")
        verdict, log = logged(root)
        env = json.loads(next((root / "results").glob("*/env.json")).read_text())

        assert verdict.code == 0
        assert log["resumed_elsewhere"]["step"] == log["resumed"]["step"]
        assert env["resumed"]["others"][0]["threads"] == 1
        assert "another machine" in env["resumed"]["reason"]

    def test_same_choices(self, root, interrupted, monkeypatch):
        """On the same machine execution and threads of the checkpoint are kept, whatever the plan says now."""
        interrupted(root, 2)
        enqueue(root, MANIFEST.replace('"loop"', '"vmap"').replace('"engine.threads" = 1', ""))
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        verdict, _ = logged(root)
        env = json.loads(next((root / "results").glob("*/env.json")).read_text())

        assert verdict.code == 0
        assert (env["execution"]["value"], env["threads"]["value"]) == ("loop", 1)
        assert "kept from the checkpoint" in env["threads"]["reason"]
        assert "resumed" not in env


class TestStop:
    """What a stop leaves."""

    def test_no_time_left(self, root, interrupted, monkeypatch):
        """Where a checkpoint would not fit into the time that is left, none is written; those before stay."""
        monkeypatch.setattr(StopFlag, "seconds_left", lambda _: 0.0)
        interrupted(root, 2)

        assert list((root / "work").glob("*/1/ckpt-*")) == []
        assert ends(root) == ["released"]

    def test_cancelled(self, root, interrupted):
        """A group that is cancelled while it is trained keeps a checkpoint and ends as cancelled: exit code 3 names it."""
        gid = open_store(root).group_ids()[0]
        verdict = interrupted(root, 2, lambda _: _cancel_and_wait(root))

        assert (verdict.code, ends(root)) == (3, ["cancelled"])
        assert verdict.faults[0].place == f"group {gid[:12]}"
        assert "is cancelled" in verdict.faults[0].problem
        assert list((root / "work").glob("*/1/ckpt-*"))


def _cancel_and_wait(root):
    """Cancel the study and wait until the next beat has seen it."""
    cancel(open_store(root), "one")
    time.sleep(1.2)  # beats come twice a second here, the first ones more seldom
