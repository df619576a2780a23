"""Groups that do not fit into memory."""

import gc
import json
import weakref

import pytest
import torch

from contilab.plan.enqueue import enqueue
from contilab.runner import training
from contilab.runner.halves import in_parts, is_out_of_memory
from contilab.runner.order import Order
from contilab.runner.progress import Lines
from contilab.runner.run import run
from contilab.runner.signals import StopFlag
from contilab.store.store import open_store

MANIFEST = """
name = "big"
profile = "smoke"
[matrix]
preset = ["synthetic_class"]
method = ["naive"]
seed = [0, 1, 2, 3, 4]
[overrides]
"model.hidden" = [4]
"benchmark.train_per_task" = 32
"benchmark.test_per_task" = 16
"engine.threads" = 1
"engine.execution" = "loop"
"engine.checkpoint_seconds" = 0
"""


@pytest.fixture
def root(tmp_path):
    """A store with one group of five runs."""
    enqueue(tmp_path / "store", MANIFEST, ttl_s=4)
    return tmp_path / "store"


@pytest.fixture
def room_for(monkeypatch):
    """Let training raise, some steps after its start, where more than so many runs are trained together."""

    def install(count):
        real = training.train

        def train(runs, execution, watch, **rest):
            def progress(now):
                watch.progress(now)
                if len(runs) > count and now.step > 1:
                    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")

            return real(runs, execution, watch._replace(progress=progress), **rest)

        monkeypatch.setattr(training, "train", train)

    return install


def ended(root):
    """Run in this process and return the verdict."""
    return run(Order(root), StopFlag(), Lines())


def records(root):
    """Return what was recorded of each run, but for what it cost."""
    return {
        place.name: [line for line in (place / "record.jsonl").read_text().splitlines() if "seconds" not in line]
        for place in (root / "results").iterdir()
    }


class TestAGroup:
    """A group that is too large for the memory."""

    def test_is_split(self, root, room_for, tmp_path):
        """It is split in halves until they fit, in one attempt that is charged to nobody, with equal numbers."""
        enqueue(tmp_path / "roomy", MANIFEST, ttl_s=4)
        ended(tmp_path / "roomy")
        room_for(2)
        verdict = ended(root)
        together = [json.loads(path.read_text()).get("together") for path in (root / "results").glob("*/env.json")]

        assert (verdict.code, verdict.done) == (0, 5)
        assert sorted(one["value"] for one in together) == [1, 2, 2, 2, 2]
        assert "memory did not suffice for all 5 runs" in together[0]["reason"]
        assert [json.loads(path.read_text())["kind"] for path in (root / "claims").glob("*/*.end")] == ["done"]
        assert records(root) == records(tmp_path / "roomy")

    def test_with_no_room_at_all(self, root, room_for):
        """A run that does not fit alone fails its group; each attempt is charged once, so that only three of them end it."""
        enqueue(root, MANIFEST.replace('_seconds" = 0', '_seconds" = 3600'))  # a checkpoint would be progress
        room_for(0)
        verdict = ended(root)
        (gid,) = open_store(root).group_ids()

        assert verdict.code == 3
        assert sorted(path.name for path in (root / "claims" / gid).iterdir()) == [
            *("1.end", "1.json", "2.end", "2.json", "3.end", "3.json")
        ]
        assert "OutOfMemoryError" in verdict.faults[0].problem


class TestParts:
    """How parts are made."""

    @pytest.mark.parametrize(
        ("error", "says_so"),
        [
            (torch.OutOfMemoryError("CUDA out of memory."), True),
            (RuntimeError("[enforce fail at alloc_cpu.cpp:75] DefaultCPUAllocator: not enough memory: you tried to"), True),
            (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), True),
            (MemoryError(), True),
            (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
            (ValueError("out of memory"), False),
        ],
    )
    def test_signs(self, error, says_so):
        """What torch and Python raise for a lack of memory is known; nothing else is taken for it."""
        assert is_out_of_memory(error) == says_so

    def test_clean_state(self):
        """Nothing of the failed try is alive when the next one begins: the exception would keep its tensors."""
        kept = []

        def train(part, is_last):
            alive = [one for one in kept if one() is not None]
            weights = torch.zeros(4)
            kept.append(weakref.ref(weights))
            if len(part) > 1:
                raise RuntimeError("not enough memory")
            return len(alive), is_last

        gc.disable()
        try:
            found = list(in_parts(["a", "b"], train, lambda _: None))
        finally:
            gc.enable()

        assert found == [(["a"], (0, False)), (["b"], (0, True))]

    def test_other_errors(self):
        """Another error is raised as it is."""

        def train(part, is_last):
            raise RuntimeError("shapes")

        with pytest.raises(RuntimeError, match="shapes"):
            list(in_parts(["a", "b"], train, lambda _: None))
