"""Groups that do not fit into memory."""

import gc
import json
import weakref

import pytest
import torch

from contilab.engine import room as room_module
from contilab.engine.demand import Demand
from contilab.engine.room import Crowded
from contilab.hardware.memory import Free
from contilab.plan.enqueue import enqueue
from contilab.runner import training
from contilab.runner.order import Order
from contilab.runner.parts import in_parts, is_out_of_memory
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


def split_of(root):
    """Return what env.json of each result says of how its group was split."""
    return [json.loads(path.read_text())["memory_split"] for path in (root / "results").glob("*/env.json")]


class TestAGroup:
    """A group that is too large for the memory."""

    def test_is_split(self, root, room_for, tmp_path):
        """It is split in halves until they fit, in one attempt that is charged to nobody, with equal numbers."""
        enqueue(tmp_path / "roomy", MANIFEST, ttl_s=4)
        ended(tmp_path / "roomy")
        room_for(2)
        verdict = ended(root)
        splits = split_of(root)

        assert (verdict.code, verdict.done) == (0, 5)
        assert sorted((one["asked"], one["value"]) for one in splits) == [(5, 1), (5, 2), (5, 2), (5, 2), (5, 2)]
        assert {one["reason"] for one in splits} <= {f"memory did not suffice for {count} runs together" for count in (5, 3)}
        assert split_of(tmp_path / "roomy") == [None] * 5
        assert [json.loads(path.read_text())["kind"] for path in (root / "claims").glob("*/*.end")] == ["done"]
        assert records(root) == records(tmp_path / "roomy")

    @pytest.mark.slow
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

    def test_is_split_before_training(self, root, room_for, tmp_path, monkeypatch):
        """What is known to be too large is never tried: it is trained in as few equal parts as fit, with equal numbers."""
        enqueue(tmp_path / "roomy", MANIFEST, ttl_s=4)
        ended(tmp_path / "roomy")
        room_for(3)
        monkeypatch.setattr(room_module, "measured", lambda *_: Demand(100, 90, 20, 0, is_measured=True))
        monkeypatch.setattr(training, "free_memory", lambda *_: Free(400, "400 bytes left"))  # of which 320 hold three runs
        verdict = ended(root)
        splits = split_of(root)

        assert (verdict.code, verdict.done) == (0, 5)
        assert sorted(one["value"] for one in splits) == [2, 2, 3, 3, 3]
        assert {(one["bytes_per_member"], one["bytes_shared"], one["bytes_free"]) for one in splits} == {(90, 10, 400)}
        assert splits[0]["reason"].startswith("planned before training: 5 runs would take ")
        assert records(root) == records(tmp_path / "roomy")

    def test_after_a_kill(self, root):
        """A runner that is told how many runs a killed worker had trains fewer at once, and says why."""
        verdict = run(Order(root, most=2), StopFlag(), Lines())
        splits = split_of(root)

        assert (verdict.code, verdict.done) == (0, 5)
        assert sorted(one["value"] for one in splits) == [1, 2, 2, 2, 2]
        assert splits[0]["reason"] == "a worker that trained more was killed for its memory"


class TestParts:
    """How parts are made."""

    @pytest.mark.parametrize(
        ("error", "says_so"),
        [
            (torch.OutOfMemoryError("CUDA out of memory."), True),
            (RuntimeError("[enforce fail at alloc_cpu.cpp:75] DefaultCPUAllocator: not enough memory: you tried to"), True),
            (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), True),
            (MemoryError(), True),
            (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
            (RuntimeError("GET was unable to find an engine to execute this computation"), True),
            (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
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
            found = list(in_parts(["a", "b"], train, lambda *_: None))
        finally:
            gc.enable()

        assert [(part, alive) for part, _, alive in found] == [(["a"], (0, False)), (["b"], (0, True))]

    def test_other_errors(self):
        """Another error is raised as it is."""

        def train(part, is_last):
            raise RuntimeError("shapes")

        with pytest.raises(RuntimeError, match="shapes"):
            list(in_parts(["a", "b"], train, lambda *_: None))

    @pytest.mark.parametrize(("runs", "parts", "sizes"), [(7, 3, [2, 2, 3]), (64, 3, [21, 21, 22]), (4, 4, [1, 1, 1, 1])])
    def test_equal_parts(self, runs, parts, sizes):
        """Parts that are planned differ by one run at most, come in order, and together are the group."""
        told = []

        def train(part, is_last):
            if len(part) > max(sizes):
                raise Crowded(parts, {"reason": "too many"})
            return is_last

        found = list(in_parts(range(runs), train, lambda part, split: told.append((len(part), split.event))))

        assert [len(part) for part, _, _ in found] == sizes
        assert [run for part, _, _ in found for run in part] == list(range(runs))
        assert [is_last for _, _, is_last in found] == [False] * (len(sizes) - 1) + [True]
        assert told == [(runs, "memory_split")]
        assert {split.facts["reason"] for _, split, _ in found} == {"too many"}

    def test_a_planned_part_may_still_be_too_large(self):
        """Where a part that was planned runs out of memory after all, it is cut in two, and says so."""

        def train(part, _is_last):
            if len(part) == 4:
                raise Crowded(2, {"reason": "too many"})
            if len(part) == 2 and part[0] == 0:
                raise MemoryError

        found = list(in_parts(range(4), train, lambda *_: None))

        assert [list(part) for part, _, _ in found] == [[0], [1], [2, 3]]
        assert [split.event for _, split, _ in found] == ["out_of_memory", "out_of_memory", "memory_split"]
