"""How long the report of a large study takes: 500 runs of Split MNIST's size are made up, published, and reported.

    python tests/bench/report.py                             # 10 methods x 50 seeds, core tier
    python tests/bench/report.py --tier extended
    python tests/bench/report.py --points 10 --seeds 5       # ten learning rates of each method
    python tests/bench/report.py --store DIR --top 25        # keeps or finds the study there, and says where the time goes

`contilab report` has ten seconds for 500 runs. The results are written by the functions that a runner publishes with: records,
answers to 10,000 test samples in six exams, and parameters of a perceptron 784-400-400-10; only their numbers are drawn.
"""

import argparse
import cProfile
import pstats
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np

from contilab.disk.publish import publish_dir
from contilab.hardware.versions import versions
from contilab.records.outcome import COMPARED, Outcome, files_of
from contilab.records.record import Cost, Record
from contilab.report.write import write_report
from contilab.spec.run import Run
from contilab.spec.sections import Benchmark, Data, Eval, Execution, Memory, Numerics, Plugin, Train
from contilab.spec.study import Cell, Study
from contilab.store.store import create_store, open_store

Tier = Literal["core", "extended"]

NAME = "large"
TASKS, CLASSES, SAMPLES, STEPS = 5, 10, 10_000, 375
LAYERS = ((400, 784), (400, 400), (CLASSES, 400))
LEVELS = {"naive": 0.2, "joint": 0.97, "ewc": 0.21, "si": 0.22, "lwf": 0.24}
LEVELS |= {"agem": 0.3, "er": 0.85, "derpp": 0.88, "gem": 0.8, "icarl": 0.83}
CIRCUMSTANCES = {"device": "cpu", "precision": "fp32", "compile": "off", "execution": "batched", "threads": "1"}


def run_of(method: str, seed: int, tier: Tier, rate: float) -> Run:
    """Return a run as `plan` makes it."""
    return Run(
        benchmark=Benchmark(name="split_mnist", scenario="class", tasks=TASKS),
        data=Data(name="mnist", digest="0" * 64),
        model=Plugin(name="mlp", settings={"hidden": [400, 400]}),
        optim=Plugin(name="sgd", settings={"lr": rate}),
        train=Train(epochs=1, batch=32),
        method=Plugin(name=method, settings={}),
        memory=Memory(total=500) if LEVELS[method] > 0.25 and method != "joint" else None,
        eval=Eval(tier=tier),
        engine=Numerics(),
        seed=seed,
    )


def answers(rng: np.random.Generator, matrix: np.ndarray) -> dict[str, np.ndarray]:
    """Return answers of [S + 1] exams with the accuracies *matrix* [S, T], and how sure they were."""
    target = np.sort(np.arange(SAMPLES) % CLASSES).astype(np.int16)
    task = target // (CLASSES // TASKS)
    right = rng.random((len(matrix) + 1, SAMPLES)) < np.vstack([np.full(TASKS, 0.1), matrix])[:, task]
    other = rng.integers(0, CLASSES, right.shape).astype(np.int16)
    prediction = np.where(right, target, other)
    confidence = rng.random(right.shape, dtype=np.float32)
    return {"target": target, "prediction": prediction, "prediction_all_rows": prediction, "confidence": confidence}


def stream(rng: np.random.Generator, matrix: np.ndarray) -> dict[str, np.ndarray]:
    """Return an evaluation stream as the dense schedule leaves it, and learning curves."""
    steps = [*range(11), 13, 16, 20, 25, 32, 40, 50, 63, 79, 100, 126, 158, 200, 251, 316, STEPS]
    task = np.repeat(np.arange(TASKS), len(steps) + 1)
    step = np.tile([0, *steps], TASKS)
    accuracy = matrix[task] + rng.normal(0, 0.02, (len(task), TASKS))
    accuracy[np.arange(TASKS) > task[:, None]] = np.nan
    is_old = np.tile([True, *[False] * len(steps)], TASKS) & (task > 0)
    found = {"stream_accuracy": accuracy, "stream_task": task, "stream_step": step, "stream_old_mask": is_old}
    return {**found, "learning_curve": rng.random((TASKS, 11))}


def outcome(run: Run) -> Outcome:
    """Return what training *run* could have left."""
    rng = np.random.default_rng(int(run.rid[:12], 16))
    stages = 1 if run.method.name == "joint" else TASKS
    age = np.arange(TASKS - stages, TASKS)[:, None] - np.arange(TASKS)  # [S, T], below 0 what is not learned yet
    matrix = np.clip(0.98 - (0.98 - LEVELS[run.method.name]) * np.clip(age, 0, 1) + rng.normal(0, 0.01, age.shape), 0, 1)
    rows = [
        [float(value) if is_seen else None for value, is_seen in zip(*line, strict=True)]
        for line in zip(matrix, age >= 0, strict=True)
    ]
    record = Record(
        scenario="class",
        tasks=TASKS,
        head_rows=CLASSES,
        task_rows=[[2 * task, 2 * task + 1] for task in range(TASKS)],
        test_samples=[SAMPLES // TASKS] * TASKS,
        stages=stages,
        accuracy=rows,
        baseline=[0.5] * TASKS,
        accuracy_all_rows=matrix.tolist(),
        validation=rows,
        cost=Cost(
            train_steps=STEPS * TASKS, flops=10**12, seconds_group=60.0, members=8, steps_per_second=[600.0 + run.seed] * TASKS
        ),
    )
    recorded = stream(rng, matrix) if run.eval.tier == "extended" and stages > 1 else {}
    parameters = {f"{place}.weight": rng.random(shape, dtype=np.float32) for place, shape in enumerate(LAYERS)}
    return Outcome(run.rid, record, {**answers(rng, matrix), **recorded}, parameters)


def make(root: Path, seeds: int, tier: Tier, points: int) -> None:
    """Plan the study, each method with *points* learning rates, and publish a result for each of its runs."""
    store = create_store(root)
    cells, runs = list[Cell](), list[Run]()
    for method, point in product(LEVELS, range(points)):
        rate = 0.1 / (point + 1)
        own = {seed: run_of(method, seed, tier, rate) for seed in range(seeds)}
        place = {"preset": "split_mnist_class", "benchmark": "split_mnist", "scenario": "class", "method": method}
        cells.append(
            Cell(
                **place,
                sweep={"optim.lr": rate} if points > 1 else {},
                execution=Execution(),
                runs={seed: run.rid for seed, run in own.items()},
            )
        )
        runs += own.values()
    store.add_runs(runs)
    store.add_study(Study(name=NAME, manifest=f'name = "{NAME}"\n', values=(), cells=tuple(cells)))
    for run in runs:
        temp = root / "work" / run.rid
        temp.mkdir(parents=True)
        for name, data in files_of(outcome(run)).items():
            (temp / name).write_bytes(data)
        group = f"{list(LEVELS).index(run.method.name):x}{run.seed // 8:x}".ljust(64, "0")
        facts = {"rid": run.rid, "gid": group, "n": 1, "runner": "r", "state": "finished", "acc": None}
        facts["circumstances"] = {**CIRCUMSTANCES, "versions": versions()}
        publish_dir(temp, store.result_dir(run.rid), facts, compared=frozenset(COMPARED))


def main() -> None:
    """Make the study, unless it is there, and report it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--tier", default="core", choices=("core", "extended"))
    parser.add_argument("--points", type=int, default=1)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--top", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = asked.store or Path(scratch) / "store"
        if not (root / "studies" / NAME).is_dir():
            make(root, asked.seeds, asked.tier, asked.points)
        profile, used, began = cProfile.Profile(), time.process_time(), time.perf_counter()
        if asked.top:
            profile.enable()
        done = write_report(root, NAME, Path(scratch) / "out")
        profile.disable()
        seconds, processor = time.perf_counter() - began, time.process_time() - used
        count = len(open_store(root).study(NAME).rids)
    sys.stdout.write(f"{count} runs, {len(done.files)} files: {seconds:.1f} s, of them {processor:.1f} s of processor time\n")
    if asked.top:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(asked.top)


if __name__ == "__main__":
    main()
