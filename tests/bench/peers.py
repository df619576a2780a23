"""Whole studies side by side: contilab, the loop that one would write by hand, and avalanche-lib 0.6.0 where it is installed.

Split Fashion-MNIST, 5 tasks x 2 classes in their order, class-incremental, one head of ten rows, MLP 784-400-400-10, SGD 0.05,
batch 32, one epoch per task, pixels / 255, 60,000 samples per run, replay of 32 out of 500 for er. The same pixels, net, batch,
optimiser and number of steps everywhere; how a memory is filled and drawn from differs in detail.

    python tests/bench/peers.py all --seeds 8            # a table; ratios count, so let nothing else run
    python tests/bench/peers.py plain er 0 1 2           # one process of the loop by hand, as `all` starts it
    AVA_ROOT=DIR python tests/bench/peers.py avalanche naive 0

DIR/FashionMNIST/raw holds the four unzipped files, for Avalanche. Each prints one line of JSON; `foreign_cores` tells whether
the machine was quiet.
"""

import argparse
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from contilab.hardware.neighbours import Neighbours

BATCH, REPLAYED, MEMORY, LR = 32, 32, 500, 0.05
SAMPLES = 60_000
METHODS = ("naive", "er")
MANIFEST = """
name = "peers"
profile = "cpu"
[matrix]
preset = ["split_fmnist_class"]
method = {methods}
seed = {seeds}
[overrides]
"benchmark.validation" = 0.0
"benchmark.class_mask" = "all"
"train.batch" = 32
"optim.lr" = 0.05
"eval.keep_parameters" = false
[method_overrides.er]
"memory.total" = 500
"memory.batch" = 32
"""


def plain(method, seeds):
    """Train *seeds* one after the other by hand and print what it took."""
    import torch

    from contilab.data.split_fmnist import ENTRY
    from contilab.spec.sections import Benchmark

    torch.set_num_threads(int(os.environ.get("NT", os.cpu_count() or 1)))
    stream = ENTRY.make(Benchmark(name="split_fmnist", scenario="class", validation=0.0)).load()
    inputs, test = (stream.normalisation.apply(pool) for pool in (stream.train_inputs, stream.test_inputs))
    train = [(inputs[task.train], stream.train_rows[task.train]) for task in stream.tasks]
    tests = [(test[task.test], stream.test_rows[task.test]) for task in stream.tasks]
    with Neighbours() as others:
        begin = time.perf_counter()
        accuracies = [_by_hand(torch, method, seed, train, tests) for seed in seeds]
        seconds = time.perf_counter() - begin
    _tell("plain", method, seeds, accuracies, seconds=seconds, foreign_cores=others.cores)


def _by_hand(torch, method, seed, train, tests):
    """Return the mean accuracy over all tasks of one seed, after the last."""
    from torch.nn import Linear, ReLU, Sequential
    from torch.nn.functional import cross_entropy

    random.seed(seed)
    torch.manual_seed(seed)
    model = Sequential(Linear(784, 400), ReLU(), Linear(400, 400), ReLU(), Linear(400, 10))
    optimiser = torch.optim.SGD(model.parameters(), lr=LR)
    memory = _Reservoir(torch)
    for inputs, rows in train:
        order = torch.randperm(len(inputs))
        for first in range(0, len(inputs), BATCH):
            index = order[first : first + BATCH]
            x, row = inputs[index], rows[index]
            optimiser.zero_grad()
            if method == "er" and memory.seen:
                old_x, old_row = memory.drawn()
                loss = cross_entropy(model(torch.cat([x, old_x])), torch.cat([row, old_row]))
            else:
                loss = cross_entropy(model(x), row)
            loss.backward()
            optimiser.step()
            if method == "er":
                memory.add(x, row)
        with torch.no_grad():  # after every task on every task, as all peers do
            accuracies = [(model(x).argmax(1) == row).float().mean().item() for x, row in tests]
    return sum(accuracies) / len(accuracies)


class _Reservoir:
    """Keeps samples with equal chance."""

    def __init__(self, torch):
        self.torch = torch
        self.x, self.row, self.seen = torch.empty(MEMORY, 784), torch.empty(MEMORY, dtype=torch.int64), 0

    def add(self, x, row):
        """Offer a batch."""
        for place in range(len(x)):
            slot = self.seen if self.seen < MEMORY else random.randint(0, self.seen)
            self.seen += 1
            if slot < MEMORY:
                self.x[slot], self.row[slot] = x[place], row[place]

    def drawn(self):
        """Return a batch without replacement."""
        index = self.torch.randperm(min(self.seen, MEMORY))[:REPLAYED]
        return self.x[index], self.row[index]


def avalanche(method, seed):
    """Train one seed with avalanche-lib's public interface and print what it took."""
    import torch
    from avalanche.benchmarks.classic import SplitFMNIST
    from avalanche.evaluation.metrics import accuracy_metrics
    from avalanche.models import SimpleMLP
    from avalanche.training.determinism.rng_manager import RNGManager
    from avalanche.training.plugins import EvaluationPlugin
    from avalanche.training.supervised import Naive, Replay
    from torchvision.transforms import ToTensor

    torch.set_num_threads(int(os.environ.get("NT", os.cpu_count() or 1)))
    RNGManager.set_random_seeds(seed)
    benchmark = SplitFMNIST(
        5,
        seed=None,
        fixed_class_order=list(range(10)),
        shuffle=False,
        dataset_root=os.environ["AVA_ROOT"],
        train_transform=ToTensor(),
        eval_transform=ToTensor(),
    )
    model = SimpleMLP(num_classes=10, hidden_size=400, hidden_layers=2, drop_rate=0)
    settings = {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=LR),
        "criterion": torch.nn.CrossEntropyLoss(),
        "train_mb_size": BATCH,
        "train_epochs": 1,
        "eval_mb_size": 256,
        "device": "cpu",
        "evaluator": EvaluationPlugin(accuracy_metrics(experience=True), loggers=[]),
    }
    strategy = Replay(mem_size=MEMORY, **settings) if method == "er" else Naive(**settings)
    with Neighbours() as others:
        begin = time.perf_counter()
        for experience in benchmark.train_stream:
            strategy.train(experience, num_workers=0)
            found = strategy.eval(benchmark.test_stream, num_workers=0)
        seconds = time.perf_counter() - begin
    accuracies = [value for name, value in found.items() if name.startswith("Top1_Acc_Exp")]
    _tell("avalanche", method, [seed], [sum(accuracies) / len(accuracies)], seconds=seconds, foreign_cores=others.cores)


def contilab(methods, seeds):
    """Plan, train and report the whole study in processes of their own; return the seconds of each."""
    with tempfile.TemporaryDirectory() as folder:
        text = MANIFEST.format(methods=json.dumps(list(methods)), seeds=json.dumps(list(seeds)))
        (Path(folder) / "peers.toml").write_text(text, encoding="utf-8")
        words = ["--store", f"{folder}/store"]
        return {
            "plan": _command(["plan", f"{folder}/peers.toml", *words]),
            "run": _command(["run", *words]),
            "report": _command(["report", "peers", *words]),
        }


def _command(words):
    program = "from contilab.cli.main import main; main()"
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", program, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def compare(seeds):
    """Measure every peer that is here, each from the start of its processes, and print a table."""
    rows = []
    with Neighbours() as others:
        parts = contilab(METHODS, seeds)
        rows.append(("contilab", sum(parts.values())))
        rows.append(("by hand, one process for all seeds", _processes([["plain", method, *seeds] for method in METHODS])))
        rows.append(
            ("by hand, one process per seed", _processes([["plain", method, seed] for method in METHODS for seed in seeds]))
        )
        if importlib.util.find_spec("avalanche") and "AVA_ROOT" in os.environ:
            words = [["avalanche", method, seed] for method in METHODS for seed in seeds]
            rows.append(("avalanche-lib, one process per seed", _processes(words)))
        else:
            sys.stderr.write("avalanche-lib is left out: it is not installed, or AVA_ROOT is not set\n")
    for name, seconds in rows:
        sys.stdout.write(f"{name:36} {seconds:8.1f} s  {seconds / rows[0][1]:6.2f} times contilab\n")
    sys.stdout.write("contilab: " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in parts.items()) + "\n")
    sys.stdout.write(f"other processes used {others.cores:.2f} cores\n")


def _processes(many):
    begin = time.perf_counter()
    for words in many:
        subprocess.run([sys.executable, __file__, *map(str, words)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def _tell(peer, method, seeds, accuracies, *, seconds, foreign_cores):
    table = {
        "peer": peer,
        "method": method,
        "seeds": list(seeds),
        "accuracy": round(sum(accuracies) / len(accuracies), 4),
        "seconds": round(seconds, 2),
        "samples_per_s": round(SAMPLES * len(seeds) / seconds, 1),
        "foreign_cores": round(foreign_cores, 2),
    }
    sys.stdout.write(json.dumps(table) + "\n")


def main():
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["all", "plain", "avalanche"])
    parser.add_argument("method", nargs="?", choices=METHODS, default="naive")
    parser.add_argument("seed", nargs="*", type=int)
    parser.add_argument("--seeds", type=int, default=8, help="of `all`: how many")
    asked = parser.parse_args()
    if asked.what == "all":
        compare(range(asked.seeds))
    elif asked.what == "plain":
        plain(asked.method, asked.seed or [0])
    else:
        avalanche(asked.method, *(asked.seed or [0])[:1])


if __name__ == "__main__":
    main()
