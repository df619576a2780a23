"""What twice as many members or tasks cost, and whether the last task is trained as fast as the second, for every method.

    python tests/bench/scaling.py                          # all methods, 6 to 8 minutes
    python tests/bench/scaling.py --methods er,ewc --seconds 60
    OMP_NUM_THREADS=1 python tests/bench/scaling.py --cpu  # beside others: counts processor time instead of wall time

MLPs 784-400-400 on noise, class-incremental, two classes and 40 steps of 32 samples per task, one epoch, by the execution that
`auto` takes without measuring. Each turn trains 4 members on 5 tasks, 8 members on 5 and 4 members on 10; ratios are medians
over turns. Time is that of training and closing tasks; exams, whose matrix grows with the square of the tasks, are told apart.
The first task has no penalty, teacher or projection: that of `tasks` is counted as if it took as long as the second; in
parentheses as it is, where ten tasks of which nine are dear against five of which four are can be 2.25.

Aims: twice the members or tasks take at most 2.2 times as long; steps per second of the last of ten tasks are at least 0.9 of
those of the second, 0.75 while memory fills. gem, cumulative, icarl and gdumb
are told, but only doubled members count: their work grows with every task by definition.
"""

import argparse
import statistics
import sys
import time
from contextlib import nullcontext
from typing import NamedTuple
from unittest.mock import patch

from contilab.hardware.process import prepare

prepare()

import torch  # noqa: E402  the process is prepared first

from contilab import catalog  # noqa: E402
from contilab.data.contract import Source, Stream, Task  # noqa: E402
from contilab.data.normalisation import PIXELS  # noqa: E402
from contilab.engine.environment import choose  # noqa: E402
from contilab.engine.setup import learner_of  # noqa: E402
from contilab.engine.setup import prepare as setup_of  # noqa: E402
from contilab.engine.train import train_group  # noqa: E402
from contilab.engine.watch import silent  # noqa: E402
from contilab.hardware.neighbours import MOST_CORES, Neighbours  # noqa: E402
from contilab.hardware.threads import thread_budget, use_threads  # noqa: E402
from contilab.spec.run import Run  # noqa: E402
from contilab.spec.sections import Benchmark, Data, Eval, Execution, Memory, Numerics, Plugin, Train  # noqa: E402

GROWING = ("gem", "cumulative", "icarl", "gdumb")
SETTINGS = {"gdumb": {"passes": 1}, "agem": {"reference": 32}}  # 128 passes and 256 samples, the defaults, take far longer
MEMORY = {"gem": 20}  # entries; all of them take part in every step
TESTED = 100  # samples per task
MEMBERS, TASKS = 4, 5
MOST, LEAST, LEAST_FILLING = 2.2, 0.9, 0.75
FEWEST_TURNS = 3


class Case(NamedTuple):
    """A *method*; *fills*: its memory has room for all samples of the stream, so it fills until the end."""

    method: str
    fills: bool = False

    @property
    def least(self):
        """The least share of the speed of the second task that the last one must have."""
        filling = self.fills or catalog.entry("method", self.method).memory.get("policy", ("",))[0].startswith("ring")
        return LEAST_FILLING if filling else LEAST


class Trained(NamedTuple):
    """*seconds* of training and closing tasks, of *exams*, *speeds* in steps per second of each task, and the execution."""

    seconds: float
    exams: float
    speeds: list[float]
    steps: int  # of the first task
    execution: str

    @property
    def evened(self):
        """Seconds, had the first task taken as long as the second."""
        if len(self.speeds) == 1:
            return self.seconds
        return self.seconds + self.steps / self.speeds[1] - self.steps / self.speeds[0]


def noise(tasks, size, width):
    """Return a stream of *tasks* of two classes with *size* samples each, of *width* 8-bit numbers that mean nothing."""
    generator = torch.Generator().manual_seed(0)

    def pool(each):
        owner = torch.arange(tasks).repeat_interleave(each)
        inputs = torch.randint(0, 256, (len(owner), width), generator=generator, dtype=torch.uint8)
        return inputs, 2 * owner + torch.randint(0, 2, owner.shape, generator=generator), owner

    inputs, rows, owner = pool(size)
    test, test_rows, _ = pool(TESTED)
    found = [
        Task(
            rows=(2 * task, 2 * task + 1),
            train=torch.arange(task * size, (task + 1) * size),
            validation=torch.empty(0, dtype=torch.int64),
            test=torch.arange(task * TESTED, (task + 1) * TESTED),
        )
        for task in range(tasks)
    ]
    return Stream(inputs, rows, owner, test, test_rows, tuple(found), 2 * tasks, PIXELS)


def runs_of(case, members, tasks, asked):
    """Return *members* runs that differ in their seed."""
    entry = catalog.entry("method", case.method)
    total = asked.steps * asked.batch * tasks if case.fills else min(asked.memory, MEMORY.get(case.method, asked.memory))
    memory = {key: values[0] for key, values in entry.memory.items()}
    shared = {
        "benchmark": Benchmark(name="noise", scenario="class", tasks=tasks),
        "data": Data(name="noise", digest=""),
        "model": Plugin(name="mlp", settings={"hidden": [asked.hidden, asked.hidden]}),
        "optim": Plugin(name="sgd", settings={"lr": 1e-3}),
        "train": Train(epochs=1, batch=asked.batch),
        "method": Plugin(name=case.method, settings=SETTINGS.get(case.method, {})),
        "memory": Memory(total=total, batch=asked.batch, **memory) if entry.uses_memory else None,
        "eval": Eval(keep_parameters=False),
        "engine": Numerics(precision="fp32", compile="off"),
    }
    return [Run(**shared, seed=seed) for seed in range(members)]


def trained(case, members, tasks, asked):
    """Train *members* on *tasks* and return what it took."""
    runs = runs_of(case, members, tasks, asked)
    stream = noise(tasks, asked.steps * asked.batch, asked.width)
    pools = len(stream.train_rows), len(stream.test_rows)
    source = Source(runs[0].data, (asked.width,), stream.head_rows, *pools, lambda: stream)
    learner = learner_of(runs[0], source)
    choices = choose(runs, Execution(device="cpu", execution=asked.execution), learner)
    setup = setup_of(runs, learner, stream, device=torch.device("cpu"))
    with patch("time.perf_counter", time.process_time) if asked.cpu else nullcontext():
        record = train_group(setup, choices.make, silent())[0].record
    if record.diverged:
        raise SystemExit(f"{case.method} diverged: {record.diverged}")
    cost = record.cost
    seconds = cost.seconds_group - cost.seconds_recording
    way = choices.execution.value
    return Trained(seconds, cost.seconds_recording, cost.steps_per_second, setup.stages[0].schedule.steps, way)


def check(case, asked):
    """Measure one case, print its line and tell whether it passes."""
    trained(case, MEMBERS, 2, asked)  # what is loaded and built once
    begin, turns = time.monotonic(), []
    with Neighbours() as others:
        while len(turns) < asked.turns or time.monotonic() - begin < asked.seconds:
            shapes = ((MEMBERS, TASKS), (2 * MEMBERS, TASKS), (MEMBERS, 2 * TASKS))
            turns.append([trained(case, *shape, asked) for shape in shapes])
    text, passes = verdict(case, turns)
    busy = ", TOO BUSY" * (others.cores > MOST_CORES and not asked.cpu)
    sys.stdout.write(f"{text}; others used {others.cores:.2f} cores{busy}\n")
    sys.stdout.flush()
    return passes


def verdict(case, turns):
    """Return the line for *turns*, triples of what was trained, and whether it passes."""
    is_growing = case.method in GROWING
    members = statistics.median(double.seconds / single.seconds for single, double, _ in turns)
    plain = statistics.median(double.seconds / single.seconds for single, _, double in turns)
    tasks = statistics.median(double.evened / single.evened for single, _, double in turns)
    exams = statistics.median(double.exams / single.exams for single, _, double in turns)
    has_tasks = len(turns[0][2].speeds) > 1  # joint trains once
    last = statistics.median(double.speeds[-1] / double.speeds[1] for _, _, double in turns) if has_tasks else 1.0
    faults = [
        *(["members"] if members > MOST else []),
        *(["tasks"] if tasks > MOST and not is_growing else []),
        *(["last task"] if last < case.least and not is_growing else []),
    ]
    name = case.method + ", memory fills" * case.fills
    aim = f"{case.least:g}" if has_tasks and not is_growing else "-"
    text = (
        f"{name:20} {turns[0][0].execution:8} members {members:4.2f}  tasks {tasks:4.2f} ({plain:4.2f})"
        f"  last/second {f'{last:4.2f}' if has_tasks else '   -'} (aim {aim})"
        f"  {'FAILS: ' + ', '.join(faults) if faults else 'passes'}  exams of twice the tasks {exams:4.2f}"
        f"  {len(turns)} turns of {sum(one.seconds for one in turns[0]):.1f} s"
    )
    return text, not faults


def main():
    """Check all methods, or those that the command line names."""
    asked = arguments()
    use_threads(thread_budget().count)
    cases = [Case(method) for method in catalog.STRATEGIES] + [Case("er", fills=True), Case("derpp", fills=True)]
    found = [check(case, asked) for case in cases if not asked.methods or case.method in asked.methods.split(",")]
    sys.stdout.write(f"{sum(found)} of {len(found)} pass; {torch.get_num_threads()} threads\n")


def arguments(words=None):
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="", help="separated by commas; all")
    parser.add_argument("--seconds", type=float, default=12.0, help="of each method, after which no turn begins")
    parser.add_argument("--turns", type=int, default=FEWEST_TURNS, help="at least")
    parser.add_argument("--steps", type=int, default=40, help="per task")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=784, help="numbers of an input")
    parser.add_argument("--hidden", type=int, default=400)
    parser.add_argument("--memory", type=int, default=500)
    parser.add_argument("--execution", default="auto", help="loop, vmap or batched")
    parser.add_argument("--cpu", action="store_true", help="count processor time instead of wall time")
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
