"""Measure how many samples per second a model trains on this machine: every form of the step, alone and beside others.

What is measured is the engine's own training loop on inputs of noise: draws, gathering, forward, backward and update. All forms
of one model and number of members take turns, with the loop that one would write by hand and, on a processor with several
cores, with as many processes of fewer threads that train a group each.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch

<<<<<<< ours
from contilab import catalog
from contilab.data.contract import Source, Stream, Task
from contilab.engine.draws import Draws
from contilab.engine.environment import EXECUTIONS
from contilab.engine.setup import Setup, initial_members, initial_memory, learner_of, prepare
from contilab.hardware.neighbours import Neighbours
from contilab.spec.run import Run
from contilab.spec.sections import Benchmark, Data, Eval, Memory, Numerics, Plugin, Train
=======
from contilab.bench.arithmetic import flops_per_sample
from contilab.bench.baseline import OneAtATime
from contilab.bench.bounds import Bounds, bounds
from contilab.bench.crew import Crew
from contilab.bench.noise import group, shape_of
from contilab.bench.peak import PeakMemory
from contilab.bench.rounds import Rounds, Speed, middle, rounds
from contilab.engine.choice.form import Form
from contilab.engine.choice.pace import Pace
from contilab.engine.environment import TABLE
from contilab.engine.setup import Setup
from contilab.hardware.precision import candidates
from contilab.hardware.profile import Rate, Shape
from contilab.spec.sections import Plugin

REPETITIONS = 5
BASELINE = "one at a time"
AUTO = "auto"


class Wanted(NamedTuple):
    """What is to be measured. *precisions*: fp32, bf16, or auto for all that the device offers. *compiles*: off, on."""

    model: Plugin
    members: int
    batch: int
    method: str = "naive"
    device: str = "cpu"
    precisions: tuple[str, ...] = ("fp32", AUTO)
    compiles: tuple[str, ...] = ("off", "on")
    repetitions: int = REPETITIONS
    seconds: float = 0.3
>>>>>>> theirs


class Contender(NamedTuple):
    """A form, the number of processes that train by it at once, and the threads of each."""

    form: Form
    processes: int
    threads: int


class Row(NamedTuple):
    """One measurement, as the JSON file holds it; without *samples_per_s* there is a *reason*."""

    model: str
    members: int
    batch: int
    precision: str
    compile: str
    execution: str
    threads: int
<<<<<<< ours
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
=======
    processes: int
    samples_per_s: float | None
    spread: float | None
    percent_of_gemm_bound: float | None
    reason: str = ""


class Measured(NamedTuple):
    """All rows of one model and number of members, and what stands beside them."""

    shape: Shape
    rows: tuple[Row, ...]
    rates: tuple[Rate, ...]
    one_at_a_time: float
    bounds: Bounds
    flops_per_sample: float
    foreign_cores: float
    again: int

    def against(self, most: Bounds) -> "Measured":
        """Return the same beside the bounds *most*, which may be larger than those that were measured with it."""
        return self._replace(bounds=most, rows=tuple(self._percent(row, most) for row in self.rows))

    def _percent(self, row: Row, most: Bounds) -> Row:
        if row.samples_per_s is None:
            return row
        percent = 100 * row.samples_per_s * self.flops_per_sample / (most.gemm_gflops * 1e9)
        return row._replace(percent_of_gemm_bound=round(percent, 1))


def measure(wanted: Wanted, crew: Crew | None = None) -> Measured:
    """Return what was measured; *crew*: processes that are to train beside each other."""
    setup = group(wanted.model, members=wanted.members, batch=wanted.batch, method=wanted.method, device=wanted.device)
    threads = torch.get_num_threads()
    before = bounds(wanted.device)
    field = _Field(setup, threads, crew, _forms(wanted, setup))
    if crew:
        _seat(crew, wanted, threads // len(crew))
    found = rounds({BASELINE: _baseline(setup), **field.speeds}, repetitions=wanted.repetitions, seconds=wanted.seconds)
    most = before.best_of(bounds(wanted.device))
    rows = [_row(wanted, contender, found) for contender in field.speeds]
    rows += [_refused(wanted, form, threads, reason) for form, reason in field.refused.items()]
    measured = Measured(
        shape=shape_of(setup),
        rows=tuple(rows),
        rates=tuple(_rates(rows, field.member_bytes)),
        one_at_a_time=middle(found.speeds(BASELINE))[0],
        bounds=most,
        flops_per_sample=flops_per_sample(setup),
        foreign_cores=found.foreign_cores,
        again=found.again,
    )
    return measured.against(most)


class _Field:
    """The contenders for *setup*: their speeds as functions, the forms that refuse, and the memory of a member by form."""

    def __init__(self, setup: Setup, threads: int, crew: Crew | None, forms: Sequence[Form]) -> None:
        self.setup = setup
        self.speeds: dict[object, Speed] = {}
        self.refused: dict[Form, str] = {}
        self.member_bytes: dict[Form, int] = {}
        for form in forms:
            if form.execution not in (TABLE.compiled if form.compile == "on" else TABLE.eager):
                self.refused[form] = f"there is no compiled form of {form.execution}"
            elif reason := TABLE.refusal(form, setup.learner):
                self.refused[form] = reason
            else:
                self.speeds[Contender(form, 1, threads)] = self._alone(form)
                if crew:
                    self.speeds[Contender(form, len(crew), threads // len(crew))] = partial(crew.speed, form)

    def _alone(self, form: Form) -> Speed:
        paces: list[Pace] = []

        def speed(seconds: float) -> float:
            if paces:
                return paces[0].during(seconds).speed
            with PeakMemory() as memory:  # the first call
                paces.append(Pace(self.setup, TABLE.maker(form)))
                found = paces[0].during(seconds).speed
            self.member_bytes[form] = memory.peak_bytes // len(self.setup.runs)
            return found

        return speed


def _forms(wanted: Wanted, setup: Setup) -> list[Form]:
    offered = candidates(str(setup.device))
    named = [name for word in wanted.precisions for name in (offered if word == AUTO else (word,))]
    return [
        Form(execution, precision, compiled)
        for execution in TABLE.eager
        for precision in dict.fromkeys(named)
        for compiled in wanted.compiles
    ]


def _seat(crew: Crew, wanted: Wanted, threads: int) -> None:
    crew.sit(
        model=wanted.model.name,
        settings=wanted.model.settings,
        threads=threads,
        members=wanted.members,
        batch=wanted.batch,
        method=wanted.method,
        device=wanted.device,
    )


def _baseline(setup: Setup) -> Speed:
    alone = OneAtATime(setup)
    return lambda seconds: alone.during(seconds).speed


def _row(wanted: Wanted, contender: object, found: Rounds) -> Row:
    assert isinstance(contender, Contender)  # noqa: S101 - the field names nothing else
    if contender in found.failed:
        return _without(wanted, contender, found.failed[contender])
    speed, spread = middle(found.speeds(contender))
    return _without(wanted, contender, "")._replace(samples_per_s=round(speed, 1), spread=round(spread, 3))


def _refused(wanted: Wanted, form: Form, threads: int, reason: str) -> Row:
    return _without(wanted, Contender(form, 1, threads), reason)


def _without(wanted: Wanted, contender: Contender, reason: str) -> Row:
    form = contender.form
    return Row(
        model=wanted.model.name,
        members=wanted.members,
        batch=wanted.batch,
        precision=form.precision,
        compile=form.compile,
        execution=form.execution,
        threads=contender.threads,
        processes=contender.processes,
        samples_per_s=None,
        spread=None,
        percent_of_gemm_bound=None,
        reason=reason,
    )


def _rates(rows: Sequence[Row], member_bytes: dict[Form, int]) -> Iterator[Rate]:
    for row in rows:
        if row.samples_per_s:
            form = Form(row.execution, row.precision, row.compile)
            yield Rate(*form, row.threads, row.processes, row.samples_per_s, row.spread or 0.0, member_bytes.get(form, 0))
>>>>>>> theirs
