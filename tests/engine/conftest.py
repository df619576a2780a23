"""Small streams of Gaussian tasks, runs on them, and groups of runs trained to the end, in one go or in pieces."""

import dataclasses
import hashlib

import numpy as np
import pytest
import torch

from contilab import catalog
from contilab.data.contract import Source, Stream, Task
from contilab.engine import closing as closing_module
from contilab.engine import stage as stage_module
from contilab.engine.draws import Draws
from contilab.engine.environment import EXECUTIONS
from contilab.engine.setup import learner_of, prepare
from contilab.engine.train import train_group
from contilab.engine.watch import silent
from contilab.errors import Stopped
from contilab.spec.run import Run
from contilab.spec.sections import Benchmark, Data, Eval, Memory, Numerics, Plugin, Train

WIDTH = 12
MEASURED = ("seconds_group", "seconds_recording", "steps_per_second", "peak_rss_bytes")  # never twice the same
DATA = Data(name="gaussians", digest="0" * 64)
SHORT = {"gdumb": {"passes": 3}}  # settings of methods that would take long with their defaults


@pytest.fixture(autouse=True)
def _one_thread():
    """Bitwise claims hold on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def a_stream(sizes=(40, 33, 47), validation=4, test=20, shape=(WIDTH,)) -> Stream:
    """Return tasks of two classes with *sizes* training samples of *shape*; those of all tasks are mixed in the pools."""
    generator = torch.Generator().manual_seed(0)
    rows = 2 * len(sizes)
    means = 2 * torch.randn(rows, *shape, generator=generator)

    def pool(counts):
        owner = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
        owner = owner[torch.randperm(len(owner), generator=generator)]
        row = 2 * owner + torch.randint(0, 2, owner.shape, generator=generator)
        return means[row] + torch.randn(len(row), *shape, generator=generator), row, owner

    inputs, row, owner = pool([size + validation for size in sizes])
    test_inputs, test_row, test_owner = pool([test] * len(sizes))
    tasks = []
    for task in range(len(sizes)):
        mine = (owner == task).nonzero()[:, 0]
        tests = (test_owner == task).nonzero()[:, 0]
        tasks.append(Task((2 * task, 2 * task + 1), mine[validation:], mine[:validation], tests))
    return Stream(inputs, row, owner, test_inputs, test_row, tuple(tasks), rows)


def a_run(seed=0, method="naive", *, scenario="class", model=("mlp", {}), optim=("sgd", {"lr": 0.05}), **sections) -> Run:
    """Return a run; methods with a memory get one of 20 entries unless *sections* say otherwise."""
    settings = sections.pop("settings", SHORT.get(method, {}))
    entry = catalog.entry("method", method)
    memory = {key: values[0] for key, values in entry.memory.items()}
    defaults = {
        "benchmark": Benchmark(name="gaussians", scenario=scenario),
        "data": DATA,
        "model": Plugin(name=model[0], settings={"hidden": [16, 16], **model[1]} if model[0] == "mlp" else model[1]),
        "optim": Plugin(name=optim[0], settings=optim[1]),
        "train": Train(epochs=2, batch=16),
        "method": Plugin(name=method, settings=settings),
        "memory": Memory(total=20, batch=8, **memory) if entry.uses_memory else None,
        "eval": Eval(),
        "engine": Numerics(),
        "seed": seed,
    }
    return Run(**{**defaults, **sections})


def a_setup(runs, stream=None, dtype=torch.float32, device="cpu"):
    """Return the setup of *runs* on *stream*."""
    stream = stream or a_stream()
    source = Source(
        DATA, stream.train_inputs.shape[1:], stream.head_rows, len(stream.train_rows), len(stream.test_rows), lambda: stream
    )
    return prepare(runs, learner_of(runs[0], source), stream, device=torch.device(device), dtype=dtype)


def outcomes(runs, way="loop", stream=None, dtype=torch.float32, watch=None, *, resume=None):
    """Train *runs* together, from the files *resume* on if there are some, and return what each leaves."""
    return train_group(a_setup(runs, stream, dtype), EXECUTIONS[way], watch or silent(), resume=resume)


@pytest.fixture
def looks(monkeypatch):
    """Look at the watch after every single step."""
    monkeypatch.setattr(stage_module, "CHUNK_SECONDS", 0.0)


@pytest.fixture
def drawn(monkeypatch):
    """Return a list that gets, of every step that is trained, task, number, and digest of all that chance decides in it."""
    seen = []
    chunk = Draws.chunk

    def noting(self, stage, piece, memory):
        draws = chunk(self, stage, piece, memory)
        leaves = [draws.current, *(leaf for replay in draws.replay.values() for leaf in replay[:2]), *draws.keep]
        for step in range(piece.count):
            data = b"".join(np.ascontiguousarray(leaf[step]).tobytes() for leaf in leaves)
            seen.append((stage.task, piece.first + step, hashlib.sha256(data).hexdigest()))
        return draws

    monkeypatch.setattr(Draws, "chunk", noting)
    return seen


@pytest.fixture
def exams(monkeypatch):
    """Return a list that gets, of every exam of a member, the latest task that was learned."""
    seen = []
    evaluate = closing_module.evaluate

    def noting(*arguments, last, look):
        seen.append(last)
        return evaluate(*arguments, last=last, look=look)

    monkeypatch.setattr(closing_module, "evaluate", noting)
    return seen


class Shelf:
    """Keeps all snapshots of a group: at ends of tasks, before the steps *due*, and before *end*, where it stops the group."""

    def __init__(self, end=None, due=()):
        self.kept, self.end, self.due, self.now = [], end, due, 0

    @property
    def watch(self):
        """The watch that hands snapshots to this shelf."""
        return silent()._replace(
            progress=self.note,
            stop=lambda: self.now == self.end,
            save=self.kept.append,
            is_due=lambda: self.now in self.due,
            saves_on_stop=lambda: True,
        )

    @property
    def steps(self):
        """The steps that snapshots were made of."""
        return [snapshot.step for snapshot in self.kept]

    def files(self, step):
        """Return the files of the snapshot of *step*."""
        return dict(self.kept[self.steps.index(step)].files)

    def note(self, progress):
        """Note the step."""
        self.now = progress.step


def shelf_of(runs, way="loop", *, due=(), **options):
    """Train *runs* in one go and return the snapshots that were made on the way."""
    shelf = Shelf(due=due)
    outcomes(runs, way, watch=shelf.watch, **options)
    return shelf


def in_pieces(runs, way, ends, **options):
    """Train *runs* from snapshot to snapshot: everything but its bytes is dropped before each step of *ends*."""
    files = None
    for end in ends:
        shelf = Shelf(end)
        with pytest.raises(Stopped):
            outcomes(runs, way, watch=shelf.watch, resume=files, **options)
        files = dict(shelf.kept[-1].files)
    return outcomes(runs, way, resume=files, **options)


def facts(outcomes):
    """Return all numbers of outcomes, in all their bits, but those that are measured."""
    return [
        {
            "rid": outcome.rid,
            "record": {**dataclasses.asdict(outcome.record), "cost": None},
            "cost": {key: value for key, value in dataclasses.asdict(outcome.record.cost).items() if key not in MEASURED},
            **{
                kind: {name: (value.dtype.str, value.shape, value.tobytes()) for name, value in getattr(outcome, kind).items()}
                for kind in ("tensors", "parameters", "kept")
            },
        }
        for outcome in outcomes
    ]


@pytest.fixture(scope="module")
def once():
    """Return a function that works out what several tests of a file compare with, once: by its name, and how."""
    known = {}

    def value(name, work):
        if name not in known:
            known[name] = work()
        return known[name]

    return value


@pytest.fixture
def make():
    """Return the functions above, for tests to call."""
    return Maker()


@dataclasses.dataclass(frozen=True)
class Maker:
    """Makes streams, runs, setups, outcomes and snapshots."""

    stream = staticmethod(a_stream)
    run = staticmethod(a_run)
    setup = staticmethod(a_setup)
    outcomes = staticmethod(outcomes)
    Shelf = Shelf
    shelf_of = staticmethod(shelf_of)
    in_pieces = staticmethod(in_pieces)
    facts = staticmethod(facts)
