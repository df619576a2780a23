"""Small streams of Gaussian tasks, runs on them, and groups of runs trained to the end."""

import dataclasses

import pytest
import torch

from contilab import catalog
from contilab.data.contract import Source, Stream, Task
from contilab.engine.environment import EXECUTIONS
from contilab.engine.setup import learner_of, prepare
from contilab.engine.train import train_group
from contilab.engine.watch import silent
from contilab.spec.run import Run
from contilab.spec.sections import Benchmark, Data, Eval, Memory, Numerics, Plugin, Train

WIDTH = 12
DATA = Data(name="gaussians", digest="0" * 64)


@pytest.fixture(autouse=True)
def _one_thread():
    """Bitwise claims hold on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def a_stream(sizes=(40, 33, 47), validation=4, test=20) -> Stream:
    """Return tasks of two classes with *sizes* training samples; the samples of all tasks are mixed in the pools."""
    generator = torch.Generator().manual_seed(0)
    rows = 2 * len(sizes)
    means = 2 * torch.randn(rows, WIDTH, generator=generator)

    def pool(counts):
        owner = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
        owner = owner[torch.randperm(len(owner), generator=generator)]
        row = 2 * owner + torch.randint(0, 2, owner.shape, generator=generator)
        return means[row] + torch.randn(len(row), WIDTH, generator=generator), row, owner

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
    settings = sections.pop("settings", {})
    uses_memory = catalog.entry("method", method).uses_memory
    defaults = {
        "benchmark": Benchmark(name="gaussians", scenario=scenario),
        "data": DATA,
        "model": Plugin(name=model[0], settings={"hidden": [16, 16], **model[1]} if model[0] == "mlp" else model[1]),
        "optim": Plugin(name=optim[0], settings=optim[1]),
        "train": Train(epochs=2, batch=16),
        "method": Plugin(name=method, settings=settings),
        "memory": Memory(total=20, batch=8) if uses_memory else None,
        "eval": Eval(),
        "engine": Numerics(),
        "seed": seed,
    }
    return Run(**{**defaults, **sections})


def a_setup(runs, stream=None, dtype=torch.float32):
    """Return the setup of *runs* on *stream*."""
    stream = stream or a_stream()
    source = Source(DATA, (WIDTH,), stream.head_rows, len(stream.train_rows), len(stream.test_rows), lambda: stream)
    return prepare(runs, learner_of(runs[0], source), stream, device=torch.device("cpu"), dtype=dtype)


def outcomes(runs, way="loop", stream=None, dtype=torch.float32, watch=None, *, resume=None):
    """Train *runs* together, from the files *resume* on if there are some, and return what each leaves."""
    return train_group(a_setup(runs, stream, dtype), EXECUTIONS[way], watch or silent(), resume=resume)


@pytest.fixture
def make():
    """Return the functions above, for tests to call."""
    return Maker()


@dataclasses.dataclass(frozen=True)
class Maker:
    """Makes streams, runs, setups and outcomes."""

    stream = staticmethod(a_stream)
    run = staticmethod(a_run)
    setup = staticmethod(a_setup)
    outcomes = staticmethod(outcomes)
