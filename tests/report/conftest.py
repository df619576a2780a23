"""A store with a small study, and its report."""

from contextlib import contextmanager

import numpy as np
import pytest

from contilab.disk.publish import publish_dir
from contilab.records.outcome import COMPARED, Outcome, files_of
from contilab.records.record import Cost, Record
from contilab.report.write import write_report
from contilab.spec.run import Run
from contilab.spec.sections import Benchmark, Data, Eval, Execution, Numerics, Plugin, Train
from contilab.spec.study import Cell, Study
from contilab.store.claimer import Claimer
from contilab.store.store import create_store

TASKS, PER_TASK = 4, 20
HOSTILE = '# Does <script>alert("1")</script> & `code` hurt?\nname = "tiny"\n# </code></pre><img src=x onerror=alert(2)>\n'
FINAL = {"naive": 0.05, "er": 0.7, "joint": 0.9}
BEGINNING = {"versions": {"torch": "2.6.0"}, "device": "cpu", "precision": "fp32"}


def planned(method, seed, scenario="class", **settings):
    """Return a run as `plan` makes it."""
    return Run(
        benchmark=Benchmark(name="synthetic", scenario=scenario, tasks=TASKS),
        data=Data(name="synthetic", digest="0" * 64),
        model=Plugin(name="mlp", settings={"hidden": [8]}),
        optim=Plugin(name="sgd", settings={"lr": 0.1}),
        train=Train(epochs=1),
        method=Plugin(name=method, settings=settings),
        memory=None,
        eval=Eval(),
        engine=Numerics(),
        seed=seed,
    )


def accuracy(run, after, on):
    """Return an accuracy that falls with the tasks that followed, to a level that depends on method and seed."""
    level = FINAL.get(run.method.name, 0.3 + 0.02 * run.method.settings.get("strength", 0))
    return round(max(0.98 - (0.98 - level) * min(1.0, (after - on) * 0.7), 0) - 0.01 * (run.seed % 3), 4)


def outcome(run, diverged=None):
    """Return what training *run* could have left."""
    stages = 1 if run.method.name == "joint" else TASKS
    done = diverged["task"] if diverged else stages
    is_class = run.benchmark.scenario == "class" and stages > 1
    rows = [
        [None if is_class and on > after else accuracy(run, max(after, on), on) for on in range(TASKS)] for after in range(done)
    ]
    target = np.repeat(np.arange(TASKS, dtype=np.int16), PER_TASK)
    predicted = np.tile(target, (done + 1, 1))
    predicted[:, ::4] = TASKS - 1
    record = Record(
        scenario=run.benchmark.scenario,
        tasks=TASKS,
        head_rows=TASKS,
        task_rows=[[row] for row in range(TASKS)],
        test_samples=[PER_TASK] * TASKS,
        stages=stages,
        accuracy=rows,
        baseline=[0.25] * TASKS,
        accuracy_all_rows=[[value or 0.0 for value in row] for row in rows],
        validation=rows,
        diverged=diverged,
        cost=Cost(train_steps=40, flops=10**6, seconds_group=2.0, members=2, steps_per_second=[20.0] * TASKS),
    )
    confidence = np.full(predicted.shape, 0.8, dtype=np.float32)
    return Outcome(run.rid, record, {"target": target, "prediction": predicted, "confidence": confidence}, {})


def publish(store, run, diverged=None, *, change=None, papers=None, **circumstances):
    """Publish the result of *run* as a runner does; *change* and *papers* as in `new_study`."""
    found = outcome(run, diverged) if change is None else change(run, outcome(run, diverged))
    temp = store.root / "work" / run.rid
    temp.mkdir(parents=True)
    for name, data in {**files_of(found), **(papers(run) if papers else {})}.items():
        (temp / name).write_bytes(data)
    own = {name: value(run) if callable(value) else value for name, value in circumstances.items()}
    facts = {"rid": run.rid, "gid": "0" * 64, "n": 1, "runner": "r", "state": found.record.state, "acc": None}
    facts["circumstances"] = {**BEGINNING, **own}
    assert publish_dir(temp, store.result_dir(run.rid), facts, compared=frozenset(COMPARED))


def add_study(store, cells, manifest=HOSTILE, values=(), name="tiny"):
    """Plan a study of *cells*: (preset, method, seeds, settings, scenario); return its runs by (cell, seed)."""
    runs, planned_cells = {}, []
    for place, (preset, method, seeds, settings, scenario) in enumerate(cells):
        found = {seed: planned(method, seed, scenario, **settings) for seed in seeds}
        runs |= {(place, seed): run for seed, run in found.items()}
        sweep = {f"method.{key}": value for key, value in settings.items()}
        rids = {seed: run.rid for seed, run in found.items()}
        facts = {"preset": preset, "benchmark": "synthetic", "scenario": scenario, "method": method}
        planned_cells.append(Cell(**facts, sweep=sweep, execution=Execution(), runs=rids))
    store.add_runs(runs.values())
    store.add_study(Study(name=name, manifest=manifest, values=tuple(values), cells=tuple(planned_cells)))
    return runs


CELLS = [
    ("tiny_class", "naive", [0, 1, 2], {}, "class"),
    ("tiny_class", "joint", [0, 1, 2], {}, "class"),
    ("tiny_class", "er", [0, 1, 2], {}, "class"),
    ("tiny_class", "ewc", [0, 1, 2], {"strength": 1.0}, "class"),
    ("tiny_class", "ewc", [0, 1, 2], {"strength": 10.0, "note": "<b>$x$|"}, "class"),
    ("tiny_task", "naive", [0, 1], {}, "task"),
]


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """A store with one study: one run diverged, one failed, one damaged, one waits, one cell mixes versions."""
    store = create_store(tmp_path_factory.mktemp("report") / "store")
    runs = add_study(store, CELLS, values=["train.epochs=1", "matrix.seed=[0, 1, 2]"])
    for (cell, seed), run in runs.items():
        if (cell, seed) == (2, 1):
            publish(store, run, diverged={"task": 2, "step": 40})
        elif (cell, seed) not in ((3, 0), (3, 1), (3, 2), (5, 1)):
            publish(store, run, versions={"torch": "2.7.1" if (cell, seed) == (0, 2) else "2.6.0"})
    store.add_groups([[runs[3, 0].rid]])
    Claimer(store, runner="r", versions={}).claim_next().fail(ValueError("<i>no</i>"))
    publish(store, runs[3, 1])
    with (store.result_dir(runs[3, 1].rid) / "record.jsonl").open("r+") as file:
        file.write("#")
    store.result_dir(runs[3, 2].rid).mkdir()
    return store


@pytest.fixture(scope="session")
def written(store, tmp_path_factory):
    """The report of that study, in a folder of its own."""
    return write_report(store.root, "tiny", tmp_path_factory.mktemp("out"))


@pytest.fixture(scope="session")
def page(written):
    """The text of report.html."""
    return written.path.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def new_study(tmp_path_factory):
    """A function that plans cells in a store of its own, publishes their results if told so, and returns the store.

    *diverged*: by (place of the cell, seed), where a run diverged. *change*: of (run, outcome), what it leaves instead.
    *papers*: of a run, the files that a runner lays beside it, by name. A circumstance may be a function of the run.
    """

    def make(cells, *, is_done=True, manifest="name = 'tiny'\n", diverged=None, **left):
        store = create_store(tmp_path_factory.mktemp("study") / "store")
        for place, run in add_study(store, cells, manifest=manifest).items():
            if is_done:
                publish(store, run, (diverged or {}).get(place), **left)
        return store

    return make


@contextmanager
def without_figures():
    """Make reports without figures, which take nearly all of their time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("contilab.report.write.drawings", lambda page: {section.anchor: () for section in page.sections})
        yield


@pytest.fixture(scope="session")
def undrawn():
    """The context in which reports are made without figures, for fixtures that several tests share."""
    return without_figures


@pytest.fixture
def no_figures():
    """No figures in the reports of this test, which is about something else."""
    with without_figures():
        yield


@pytest.fixture
def add_second():
    """A function that plans a study named second in a store, and publishes its results."""

    def add(store, cells):
        for run in add_study(store, cells, manifest="name = 'second'\n", name="second").values():
            publish(store, run)

    return add
