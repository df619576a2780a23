"""What it costs to record: the tiers `extended` and `full` beside `core`, and `full` with everything kept.

    python tests/bench/recording.py                              # Split MNIST, MLP 2x400, one member: 1 minute a turn
    python tests/bench/recording.py --members 4 --turns 5
    OMP_NUM_THREADS=1 python tests/bench/recording.py --cpu      # beside others: counts processor time instead of wall time
    python tests/bench/recording.py --benchmark split_digits     # in seconds, with data that are in the package

Each turn trains one group per tier, one after the other, for an epoch of each task. Of `seconds_recording`, those in which
samples are gathered and passed through the model are counted apart, as a schedule asks for them; all others are beside them.
Training that is interrupted loses some time, too: it is told as a multiple of that of `core` in the same turn and, in
parentheses, within the share of the run. Files are made after a run and told apart. Medians over turns.

Aim: of a run of `extended`, less than 10 % beside its passes.
"""

import argparse
import statistics
import sys
import time
from contextlib import ExitStack, contextmanager, nullcontext
from typing import NamedTuple
from unittest.mock import patch

from contilab.hardware.process import prepare

prepare()

import torch  # noqa: E402  the process is prepared first

from contilab import catalog  # noqa: E402
from contilab.engine import evaluate  # noqa: E402
from contilab.engine.environment import choose  # noqa: E402
from contilab.engine.recording import few_shot, gradients, portrait, subset, survey  # noqa: E402
from contilab.engine.setup import learner_of  # noqa: E402
from contilab.engine.setup import prepare as setup_of  # noqa: E402
from contilab.engine.train import train_group  # noqa: E402
from contilab.engine.watch import silent  # noqa: E402
from contilab.hardware.neighbours import MOST_CORES, Neighbours  # noqa: E402
from contilab.hardware.threads import thread_budget, use_threads  # noqa: E402
from contilab.records.outcome import KEPT, files_of  # noqa: E402
from contilab.spec.run import Run  # noqa: E402
from contilab.spec.sections import Benchmark, Eval, Execution, Memory, Numerics, Plugin, Train  # noqa: E402

TIERS = {
    "core": Eval(),
    "extended": Eval(tier="extended"),
    "full": Eval(tier="full"),
    "full, kept": Eval(tier="full", keep_features=True, keep_trajectory=True),
}
PASSES = (
    *((evaluate, "scores_of"), (subset, "scores_of"), (portrait, "features_of"), (portrait, "features_and_activity")),
    *((gradients, "task_gradients"), (survey, "losses_between"), (few_shot, "relearned"), (few_shot, "accuracy_on")),
)
MOST = 0.10  # of a run of `extended`, beside its passes


class Recorded(NamedTuple):
    """Seconds of *training*, *recording*, *passes* through the model in it, and making *files*; bytes of a run, and *kept*."""

    training: float
    recording: float
    passes: float
    files: float
    size: int
    kept: int

    @property
    def beside(self):
        """The share of the run that recording took beside its passes."""
        return (self.recording - self.passes) / (self.training + self.recording)

    def all_beside(self, core):
        """Return that share with what training took longer than with *core*."""
        return self.beside + (self.training - core.training) / (self.training + self.recording)


def group_of(tier, asked):
    """Return the setup of *members* runs of a *tier* that differ in their seed, and how they are trained."""
    benchmark = Benchmark(name=asked.benchmark, scenario="class", tasks=5)
    source = catalog.entry("benchmark", asked.benchmark).make(benchmark)
    entry = catalog.entry("method", asked.method)
    memory = {key: values[0] for key, values in entry.memory.items()}
    shared = {
        "benchmark": benchmark,
        "data": source.data,
        "model": Plugin(name="mlp", settings={"hidden": [asked.hidden, asked.hidden]}),
        "optim": Plugin(name="sgd", settings={"lr": 0.01}),
        "train": Train(steps=asked.steps, batch=asked.batch) if asked.steps else Train(epochs=1, batch=asked.batch),
        "method": Plugin(name=asked.method),
        "memory": Memory(total=500, batch=asked.batch, **memory) if entry.uses_memory else None,
        "eval": TIERS[tier],
        "engine": Numerics(precision="fp32", compile="off"),
    }
    runs = [Run(**shared, seed=seed) for seed in range(asked.members)]
    learner = learner_of(runs[0], source)
    choices = choose(runs, Execution(device="cpu", execution=asked.execution), learner)
    return setup_of(runs, learner, source.load(), device=torch.device("cpu")), choices


class Passes:
    """Counts the *seconds* in functions that pass samples through the model for records; one called by another counts once."""

    def __init__(self):
        self.seconds, self._depth = 0.0, 0

    def counting(self, function):
        """Return *function* with its seconds counted."""

        def call(*words, **named):
            self._depth, begin = self._depth + 1, time.perf_counter()
            try:
                return function(*words, **named)
            finally:
                self._depth -= 1
                self.seconds += 0.0 if self._depth else time.perf_counter() - begin

        return call

    @contextmanager
    def counted(self):
        """Count all passes that are made inside."""
        with ExitStack() as stack:
            for module, name in PASSES:
                stack.enter_context(patch.object(module, name, self.counting(getattr(module, name))))
            yield


def recorded(tier, asked):
    """Train a group with the *tier* and return what it took."""
    (setup, choices), passes = group_of(tier, asked), Passes()
    with patch("time.perf_counter", time.process_time) if asked.cpu else nullcontext():
        with passes.counted():
            outcomes = train_group(setup, choices.make, silent())
        begin = time.perf_counter()
        files = [files_of(outcome) for outcome in outcomes]
        files_seconds = time.perf_counter() - begin
    cost = outcomes[0].record.cost
    sizes = {name: len(data) for name, data in files[0].items()}
    training = cost.seconds_group - cost.seconds_recording
    return Recorded(training, cost.seconds_recording, passes.seconds, files_seconds, sum(sizes.values()), sizes.get(KEPT, 0))


def verdict(turns):
    """Return the lines for *turns*, what each tier took by name, and whether `extended` is within its share."""
    lines, is_within = [], True
    for tier in turns[0]:
        own = [turn[tier] for turn in turns]
        training = statistics.median(turn[tier].training / turn["core"].training for turn in turns)
        beside = statistics.median(one.beside for one in own)
        everything = statistics.median(turn[tier].all_beside(turn["core"]) for turn in turns)
        is_over = tier == "extended" and beside >= MOST
        is_within = is_within and not is_over
        seconds = [
            statistics.median(getattr(one, name) for one in own) for name in ("training", "recording", "passes", "files")
        ]
        lines.append(
            f"{tier:10}  training {seconds[0]:6.2f} s ({training:4.2f} x core)  recording {seconds[1]:6.2f} s, of it passes "
            f"{seconds[2]:6.2f} s  beside them {100 * beside:4.1f} % of the run ({100 * everything:.1f}){' FAILS' * is_over}"
            f"  files {seconds[3]:5.2f} s  {own[0].size / 1e6:6.2f} MB a run, of it kept {own[0].kept / 1e6:6.2f} MB"
        )
    return lines, is_within


def main(words=None):
    """Measure all tiers and tell whether recording is as cheap as it is meant to be."""
    asked = arguments(words)
    use_threads(thread_budget().count)
    recorded("core", asked)  # what is loaded and built once
    with Neighbours() as others:
        turns = [{tier: recorded(tier, asked) for tier in TIERS} for _ in range(asked.turns)]
    lines, is_within = verdict(turns)
    busy = ", TOO BUSY" * (others.cores > MOST_CORES and not asked.cpu)
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.write(
        f"{'passes' if is_within else 'FAILS'}: {asked.members} x MLP 2x{asked.hidden}, {asked.method}, {asked.benchmark}, "
        f"{asked.turns} turns, {torch.get_num_threads()} threads; others used {others.cores:.2f} cores{busy}\n"
    )


def arguments(words=None):
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", default="split_mnist", help="of five tasks")
    parser.add_argument("--method", default="naive")
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="of each task; 0: an epoch")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=400)
    parser.add_argument("--execution", default="auto", help="loop, vmap or batched")
    parser.add_argument("--cpu", action="store_true", help="count processor time instead of wall time")
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
