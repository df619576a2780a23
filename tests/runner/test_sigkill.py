"""Runners that are killed while they train, and the bits of what their successors publish."""

import json
import os
import random
import signal
import subprocess
import time

import pytest
from safetensors.numpy import load_file

from contilab.plan.enqueue import enqueue
from contilab.store.retry import retry
from contilab.store.store import open_store

KILLS = 5
MANIFEST = """
name = "killed"
profile = "cpu"
[matrix]
preset = ["split_digits_class"]
method = ["METHOD"]
seed = [0, 1]
[overrides]
"train.epochs" = EPOCHS
"engine.execution" = "loop"
"engine.threads" = 1
"engine.checkpoint_seconds" = 0.2
"""


@pytest.fixture
def started(program):
    """A function that starts a runner."""

    def start(root):
        environ = {**os.environ, "OMP_NUM_THREADS": "1", "CONTILAB_DEBUG": "1"}
        command = [*program, "run", "--workers", "1", "--store", str(root)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environ)

    return start


def bits(root):
    """Return all tensors of all results."""
    return {
        (place.name, file, name): value.tobytes()
        for place in (root / "results").iterdir()
        for file in ("tensors.safetensors", "parameters.safetensors")
        for name, value in load_file(place / file).items()
    }


@pytest.mark.slow
@pytest.mark.timeout(300)  # seven processes that load torch, on a busy machine
class TestSigkill:
    """A group of two runs on Split Digits."""

    @pytest.mark.parametrize(("method", "epochs"), [("naive", 30), ("ewc", 20), ("er", 20), ("derpp", 12)])
    def test_same_bits(self, tmp_path, started, method, epochs):
        """Killed five times at random after a new checkpoint, a group ends with the bits of one that nobody disturbed."""
        text = MANIFEST.replace("METHOD", method).replace("EPOCHS", str(epochs))
        moments = random.Random(method)
        for name in ("calm", "killed"):
            enqueue(tmp_path / name, text, ttl_s=2)
        calm = started(tmp_path / "calm")
        calm.communicate(timeout=100)
        for _ in range(KILLS):
            process = started(tmp_path / "killed")
            for line in process.stderr:
                if '"checkpoint"' in line:
                    break
            time.sleep(moments.uniform(0, 0.3))
            process.send_signal(signal.SIGKILL)
            process.communicate()
        steps = max((int(path.name[5:]) for path in (tmp_path / "killed" / "work").glob("*/*/ckpt-*")), default=0)
        last = started(tmp_path / "killed")
        _, log = last.communicate(timeout=100)

        assert (calm.returncode, last.returncode) == (0, 0)
        assert next(entry["step"] for entry in map(json.loads, log.splitlines()) if entry["event"] == "resumed") == steps
        assert bits(tmp_path / "killed") == bits(tmp_path / "calm")
        assert len(bits(tmp_path / "calm")) > 10
        assert retry(open_store(tmp_path / "killed")).groups == ()
