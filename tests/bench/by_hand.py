"""Split Fashion-MNIST by the loop that one would write by hand: data as tensors, torch's own SGD, one seed after the other.

5 tasks x 2 classes in their order, class-incremental, one head of ten rows, MLP 784-400-400-10, SGD 0.05, batch 32, one epoch
per task, pixels / 255; er replays 32 of 500. After every task all tasks are evaluated, as all peers do.

    python tests/bench/by_hand.py naive,er 0 1 2       # all of it in one process; prints one line of JSON per method

NT: threads, else all that this process may use. See `peers.py`.
"""

import argparse
import json
import os
import random
import statistics
import sys
import time

import torch
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy

from contilab.data.split_fmnist import ENTRY
from contilab.hardware.threads import thread_budget
from contilab.spec.sections import Benchmark

BATCH, REPLAYED, MEMORY, LR = 32, 32, 500, 0.05


class Reservoir:
    """Keeps samples with equal chance."""

    def __init__(self, width):
        self.x, self.row, self.seen = torch.empty(MEMORY, width), torch.empty(MEMORY, dtype=torch.int64), 0

    def add(self, x, row):
        """Offer a batch."""
        for place in range(len(x)):
            slot = self.seen if self.seen < MEMORY else random.randint(0, self.seen)
            self.seen += 1
            if slot < MEMORY:
                self.x[slot], self.row[slot] = x[place], row[place]

    def drawn(self):
        """Return a batch without replacement."""
        index = torch.randperm(min(self.seen, MEMORY))[:REPLAYED]
        return self.x[index], self.row[index]


def pictures():
    """Return inputs and rows of each task, [(x [N, 784], row [N]), ...], for training and for testing."""
    stream = ENTRY.make(Benchmark(name="split_fmnist", scenario="class", validation=0.0)).load()
    inputs, test = (stream.normalisation.apply(pool) for pool in (stream.train_inputs, stream.test_inputs))
    train = [(inputs[task.train], stream.train_rows[task.train]) for task in stream.tasks]
    return train, [(test[task.test], stream.test_rows[task.test]) for task in stream.tasks]


def accuracy(method, seed, train, tests):
    """Return the mean accuracy over all tasks of one seed, after the last."""
    random.seed(seed)
    torch.manual_seed(seed)
    width = train[0][0].shape[1]
    model = Sequential(Linear(width, 400), ReLU(), Linear(400, 400), ReLU(), Linear(400, 10))
    optimiser = torch.optim.SGD(model.parameters(), lr=LR)
    memory, marks = Reservoir(width), []
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
        with torch.no_grad():
            marks = [(model(x).argmax(1) == row).float().mean().item() for x, row in tests]
    return statistics.fmean(marks)


def main():
    """Train what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", help="naive, er, or both with a comma")
    parser.add_argument("seeds", type=int, nargs="+")
    asked = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("NT", thread_budget().count)))
    train, tests = pictures()
    for method in asked.methods.split(","):
        begin = time.perf_counter()
        found = [accuracy(method, seed, train, tests) for seed in asked.seeds]
        told = {"method": method, "accuracy": statistics.fmean(found), "seconds": time.perf_counter() - begin}
        sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
