"""What training may see, for every method and policy: training samples of tasks already begun; and what memory keeps."""

import itertools
import os
import resource
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load

from contilab import catalog
from contilab.engine.draws import Draws
from contilab.engine.watch import silent
from contilab.spec.sections import Memory, Train

POLICIES = ("reservoir", "class_balanced", "ring", "ring_class", "herding")
INSERTS = ("first_epoch", "every_epoch", "task_end")
TRAIN = Train(epochs=2, batch=16)


def combinations():
    """Return every method with the memories that it accepts: of er all of them, of others each value once."""
    for method in catalog.STRATEGIES:
        entry = catalog.entry("method", method)
        policies, inserts = entry.memory.get("policy", POLICIES), entry.memory.get("insert", INSERTS)
        if not entry.uses_memory:
            yield pytest.param(method, None, id=method)
            continue
        for policy, insert in itertools.product(policies, inserts):
            is_usual = policy == policies[0] or insert == inserts[0] or policy == "herding"
            if (insert == "task_end" or policy != "herding") and (is_usual or method == "er"):
                yield pytest.param(
                    method, Memory(total=12, batch=4, policy=policy, insert=insert), id=f"{method}-{policy}-{insert}"
                )


CASES = list(combinations())
every_combination = pytest.mark.parametrize(("method", "memory"), CASES)


@pytest.fixture
def touched(monkeypatch):
    """Return a list that gets, of every chunk, its task, the samples that count in its batches, and those in memory."""
    seen = []
    chunk = Draws.chunk

    def noting(self, stage, piece, memory):
        draws = chunk(self, stage, piece, memory)
        drawn = (*draws.replay.values(), *draws.references)
        found = [draws.current.flatten(), *(replay.samples[replay.weight > 0] for replay in drawn)]
        seen.append((stage.task, torch.cat(found).tolist(), [entries.held.tolist() for entries in memory.entries()]))
        return draws

    monkeypatch.setattr(Draws, "chunk", noting)
    return seen


def a_run(make, method, memory, **sections):
    """Return a run of *method* in a scenario that it knows."""
    if memory is not None:
        sections["memory"] = memory
    return make.run(5, method, train=TRAIN, **sections)


@every_combination
class TestEveryMethod:
    """Every method of the catalog, with every memory that it accepts."""

    def test_sees_training_samples_of_tasks_begun_only(self, make, touched, method, memory):
        """No batch and no memory ever holds a validation sample, or one of a later task.

        Where a sample is offered once it lies in one slot, and the number of entries never exceeds the capacity.
        """
        run = a_run(make, method, memory)
        make.outcomes([run], stream=make.stream((20, 17, 13)))
        tasks = make.setup([run], make.stream((20, 17, 13))).stream.tasks
        joint = catalog.entry("method", method).make(catalog.entry("method", method).settings()).stages == "joint"
        capacity = 0 if memory is None else memory.capacity(6)

        for stage, batch, held in touched:
            begun = tasks if joint else tasks[: stage + 1]
            assert {*batch, *held[0]} <= {int(sample) for task in begun for sample in task.train}
            assert len(held[0]) <= capacity
            assert memory is None or memory.insert == "every_epoch" or len(set(held[0])) == len(held[0])

    def test_other_validation_and_test_samples_change_nothing(self, make, method, memory):
        """With noise in place of all samples that are held out, a run ends at the same parameters, bit by bit."""
        stream = make.stream((20, 17, 13))
        held_out = torch.cat([task.validation for task in stream.tasks])
        inputs = stream.train_inputs.clone()
        inputs[held_out] = 100.0
        noise = stream._replace(train_inputs=inputs, test_inputs=torch.full_like(stream.test_inputs, -100.0))
        plain, other = (make.outcomes([a_run(make, method, memory)], stream=data)[0].parameters for data in (stream, noise))

        assert all(np.array_equal(plain[name], other[name]) for name in plain)


@pytest.mark.parametrize(("method", "memory"), [case for case in CASES if case.values[1] is not None])
class TestResumed:
    """Memory of a run that is stopped and goes on."""

    def test_holds_the_same_entries_in_the_same_slots(self, make, looks, method, memory):
        """Slots, numbers and counters of the last snapshot are those of one go; the counter of offers is not the occupancy."""
        runs = [a_run(make, method, memory)]
        stream = make.stream((20, 17, 13))
        whole = make.shelf_of(runs, stream=stream).kept[-1]
        middle = whole.step // 2
        files = make.shelf_of(runs, stream=stream, due=(middle,)).files(middle)
        again = make.shelf_of(runs, stream=stream, resume=files).kept[-1]
        one, two = (load(kept.files[f"{runs[0].rid}.safetensors"]) for kept in (whole, again))
        names = [name for name in one if name.startswith("memory.")]

        assert sorted(names) == ["memory.number", "memory.offered", "memory.replayed", "memory.samples"]
        assert all(torch.equal(one[name], two[name]) for name in names)
        assert int(one["memory.offered"].sum()) == 50 * (2 if memory.insert == "every_epoch" else 1) > 12


class TestIndices:
    """What memory is made of."""

    @pytest.mark.parametrize("method", [name for name in catalog.STRATEGIES if catalog.entry("method", name).uses_memory])
    def test_memory_holds_indices_and_no_copies(self, make, method, monkeypatch):
        """With inputs of another width no more differs of memory, and of what is saved of a member, than the first layer."""
        seen, chunk = {}, Draws.chunk

        def noting(self, stage, piece, memory):
            arrays = {name: value.shape for name, value in vars(memory).items() if isinstance(value, np.ndarray)}
            seen.setdefault(width, []).append(arrays)
            return chunk(self, stage, piece, memory)

        monkeypatch.setattr(Draws, "chunk", noting)
        saved = {}
        run = make.run(method=method, model=("mlp", {"hidden": [3]}), train=Train(epochs=1, batch=4))
        for width in (5, 7):
            files = make.shelf_of([run], stream=make.stream((8, 8), validation=0, test=2, shape=(width,))).kept[-1].files
            saved[width] = {name: tuple(value.shape) for name, value in load(files[f"{run.rid}.safetensors"]).items()}
        other = {shape for name, shape in saved[5].items() if shape != saved[7][name]}

        assert seen[5] == seen[7]
        assert {"samples", "number"} <= seen[5][0].keys()
        assert saved[5].keys() == saved[7].keys()
        assert other == {(3, 5)}


class TestManyTasks:
    """Long streams."""

    @pytest.mark.slow
    @pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc, which is missing")
    @pytest.mark.parametrize("method", ["er", "gdumb"])
    def test_resident_memory_stays_level(self, make, method):
        """Over tasks 50 to 200, of four samples of 100 kB each, it grows by less than a tenth of a task's samples per task."""
        sizes, width = (4,) * 200, 25_000
        stream = make.stream(sizes, validation=0, test=1, shape=(width,))
        run = make.run(method=method, model=("mlp", {"hidden": [2]}), train=Train(epochs=1, batch=4))
        seen = []
        make.outcomes([run], stream=stream, watch=silent()._replace(log=lambda _event, **_facts: seen.append(resident())))
        # The median over pairs of tasks that lie 75 apart: what else goes on in the process may add a jump, but no slope.
        slope = np.median(np.subtract(seen[125:], seen[50:125])) / 75

        assert len(seen) == 200
        assert slope < 0.1 * 4 * 4 * width


def resident():
    """Return the resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() if os.name == "posix" else 0
