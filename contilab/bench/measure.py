"""Measure how many samples per second a model trains on this machine, by execution and number of members.

What is measured is the engine's own step on inputs of noise: random draws, gathering, forward, backward and update. Each
figure is the best of several rounds, because other processes only ever slow a round down; how busy they were stands beside it.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from contilab import catalog
from contilab.data.contract import Source, Stream, Task
from contilab.engine.draws import Draws
from contilab.engine.environment import EXECUTIONS
from contilab.engine.setup import Setup, initial_members, initial_memory, learner_of, prepare
from contilab.hardware.neighbours import Neighbours
from contilab.spec.run import Run
from contilab.spec.sections import Benchmark, Data, Eval, Memory, Numerics, Plugin, Train

ROUNDS = 5
SECONDS = 0.5  # per round; chosen: 100 steps of eight MLPs 2x400
SAMPLES = 10_000  # of the noise that is trained on: no cache holds them
ROWS = 10


class Row(NamedTuple):
    """One measurement; samples per second are summed over members, replayed ones left out. foreign_load: cores."""

    model: str
    method: str
    execution: str
    members: int
    batch: int
    threads: int
    device: str
    samples_per_second: float
    foreign_load: float


def measure(
    model: Plugin,
    *,
    members: Sequence[int] = (1, 2, 4, 8),
    executions: Sequence[str] = tuple(EXECUTIONS),
    method: str = "naive",
    batch: int = 32,
    input_shape: tuple[int, ...] = (784,),
    device: str = "cpu",
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
) -> list[Row]:
    """Return one row per number of *members* and execution. A round takes about *seconds*."""
    rows = []
    for count in members:
        setup = _setup(model, method=method, members=count, batch=batch, input_shape=input_shape, device=device)
        for execution in executions:
            with Neighbours() as load:
                speed = count * batch / _seconds_per_step(setup, execution, rounds, seconds)
            threads = torch.get_num_threads()
            rows.append(Row(model.name, method, execution, count, batch, threads, device, speed, load.cores))
    return rows


def _seconds_per_step(setup: Setup, execution: str, rounds: int, seconds: float) -> float:
    step = _steps(setup, execution)
    step(2)  # first steps load libraries and fill caches
    count = max(1, round(seconds / step(2) * 2))
    return min(step(count) for _ in range(rounds)) / count


def _steps(setup: Setup, execution: str) -> Callable[[int], float]:
    """Return a function that trains all members by some more steps and returns the seconds it took."""
    way = EXECUTIONS[execution](setup.learner)
    draws = Draws([run.seed for run in setup.runs], setup.plan, device=setup.device, dtype=setup.dtype)
    [stage] = setup.stages
    lesson = setup.lesson(stage)
    ensemble = way.gather(initial_members(setup))
    done, memory = 0, initial_memory(setup)

    def steps(count: int) -> float:
        nonlocal ensemble, done
        begin, end = time.perf_counter(), done + count
        while done < end:
            chunk = stage.schedule.chunk(done, end - done)
            ensemble, losses = way.train(ensemble, lesson, draws.chunk(stage, chunk, memory))
            losses.sum().item()  # waits for the device
            done += chunk.count
        return time.perf_counter() - begin

    return steps


def _setup(model: Plugin, *, method: str, members: int, batch: int, input_shape: tuple[int, ...], device: str) -> Setup:
    stream = _noise(input_shape, batch)
    source = Source(Data(name="noise", digest=""), input_shape, ROWS, SAMPLES, 0, lambda: stream)
    uses_memory = catalog.entry("method", method).uses_memory
    shared: dict[str, Any] = {
        "benchmark": Benchmark(name="noise", scenario="domain", tasks=1),
        "data": source.data,
        "model": model,
        "optim": Plugin(name="sgd", settings={"lr": 1e-3}),
        "train": Train(steps=10**9, batch=batch),
        "method": Plugin(name=method),
        "memory": Memory(total=500, batch=batch) if uses_memory else None,
        "eval": Eval(),
        "engine": Numerics(),
    }
    runs = [Run(**shared, seed=seed) for seed in range(members)]
    return prepare(runs, learner_of(runs[0], source), stream, device=torch.device(device))


def _noise(input_shape: tuple[int, ...], batch: int) -> Stream:
    generator = torch.Generator().manual_seed(0)
    count = SAMPLES - SAMPLES % batch  # batches of one size only
    inputs = torch.rand(count, *input_shape, generator=generator)
    rows = torch.randint(0, ROWS, (count,), generator=generator)
    nothing = torch.empty(0, dtype=torch.int64)
    task = Task(tuple(range(ROWS)), torch.arange(count), nothing, nothing)
    return Stream(inputs, rows, torch.zeros_like(rows), inputs[:0], rows[:0], (task,), ROWS)
