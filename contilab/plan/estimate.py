"""Estimate what the open runs of a plan take: samples, floating-point operations, memory and disk, from shapes alone.

Nothing is trained or loaded: states are built on torch's meta device, which has shapes without numbers. Time is not
guessed: how many samples a second a machine trains, only a measurement tells, see `speed`.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from contilab.data.contract import Source
from contilab.engine.recording.features import MOST, share_of
from contilab.engine.recording.kept import kept_bytes
from contilab.engine.recording.landscape import PLACES, landscape_bytes
from contilab.engine.recording.moments import moments
from contilab.engine.recording.representation import features_bytes
from contilab.hardware.profile import written_out
from contilab.manifest.menu import Menu
from contilab.models.contract import Model, Params
from contilab.plan.plugins import built
from contilab.plan.speed import UNKNOWN, Answers, Known, Work, known, known_of, time
from contilab.spec.fields import in_common, values_per_member
from contilab.spec.run import Run
from contilab.spec.sections import Benchmark, Plugin
from contilab.strategies.contract import Member, Strategy

PROCESS_BYTES = 250_000_000  # measured: a process with torch 2.13 (CPU) after its first matrix product, 235 MB
SIDECAR_BYTES = 30_000  # chosen: record, log, environment and configuration of one run
FLOAT_BYTES = 4
STREAM_STEPS = 10_000  # of a task; chosen: ten times as many add 13 evaluations
SHAPES_ONLY = "parameters, gradients and states, from shapes; without activations"
MEASURED = "members as bench measured them, with activations"


class Estimate(NamedTuple):
    """What the open runs take in all.

    *train_samples*: new and replayed. *flops*: of training, 2 per multiply-add. *memory_bytes* is that of one runner at its
    largest group; *memory_basis* tells what it rests on. *seconds*: None where nothing was measured; *seconds_basis* tells why,
    or what they rest on and how sure they are.
    """

    runs: int
    train_samples: int
    flops: int
    memory_bytes: int
    disk_bytes: int
    seconds: float | None = None
    seconds_basis: str = UNKNOWN
    memory_basis: str = SHAPES_ONLY


class Cost(NamedTuple):
    """What one run takes: *samples* and *flops* of training, as in `Estimate`, and bytes."""

    samples: int
    flops: int
    flops_per_sample: int
    features: int
    member_bytes: int
    shared_bytes: int
    disk_bytes: int


class Costs:
    """What runs of benchmarks with *sources* take; those that differ in seed, rates or class order are looked at once."""

    def __init__(self, sources: Mapping[Benchmark, Source], menu: Menu) -> None:
        self.menu = menu
        self._sources = sources
        self._found: dict[str, Cost] = {}

    def of(self, run: Run) -> Cost:
        """Return what *run* takes."""
        source = self._sources[run.benchmark]
        shape = _shape(run, source, self.menu)
        if shape not in self._found:
            self._found[shape] = _cost(run, source, self.menu)
        return self._found[shape]


def estimate(
    alike: Iterable[Collection[Run]],
    largest: Mapping[str, int],
    costs: Costs,
    answers: Answers = (),
) -> Estimate:
    """Return the estimate of the runs *alike*, lists of runs that differ in their seed only.

    *largest*: the size of the largest group that a run is in, by address; 1 where it is missing. *answers*: what bench measured
    on this machine.
    """
    total = Estimate(0, 0, 0, 0, 0)
    measured = known(answers)
    works: list[Work] = []
    for runs in alike:
        if not runs:
            continue
        first = next(iter(runs))
        cost = costs.of(first)
        members = max(largest.get(run.rid, 1) for run in runs)
        works.append(_work(first, cost, members, len(runs), costs.menu))
        member_bytes = max(cost.member_bytes, _measured_bytes(works[-1], measured))
        total = total._replace(
            runs=total.runs + len(runs),
            train_samples=total.train_samples + len(runs) * cost.samples,
            flops=total.flops + len(runs) * cost.flops,
            memory_bytes=max(total.memory_bytes, PROCESS_BYTES + cost.shared_bytes + members * member_bytes),
            disk_bytes=total.disk_bytes + len(runs) * cost.disk_bytes,
            memory_basis=MEASURED if member_bytes > cost.member_bytes else total.memory_basis,
        )
    seconds, basis = time(works, measured)
    return total._replace(seconds=seconds, seconds_basis=basis)


def _work(run: Run, cost: Cost, members: int, count: int, menu: Menu) -> Work:
    return Work(
        model=run.model.name,
        settings=written_out(menu.entry("model", run.model.name).settings(**run.model.settings)),
        features=cost.features,
        batch=run.train.batch,
        members=members,
        samples=count * cost.samples,
        flops=count * cost.flops,
        flops_per_sample=cost.flops_per_sample,
    )


def _measured_bytes(work: Work, measured: Sequence[Known]) -> int:
    """Return the memory that bench saw a member of this shape take, activations included; 0 if it has seen none."""
    one = known_of(work, measured)
    return one.rate.member_bytes if one else 0


def _shape(run: Run, source: Source, menu: Menu) -> str:
    """Return what the cost of *run* depends on, as text."""
    facts = (source.input_shape, source.head_rows, source.train_samples, source.test_samples)
    lengths = (run.benchmark.tasks, run.benchmark.validation, run.train, run.memory, run.eval)
    optim, method = (_fixed(menu, kind, plugin) for kind, plugin in (("optim", run.optim), ("method", run.method)))
    return repr((facts, lengths, run.model, optim, method))


def _fixed(menu: Menu, kind: str, plugin: Plugin) -> tuple[Any, ...]:
    return plugin.name, in_common(menu.entry(kind, plugin.name).settings, plugin.settings)


def _cost(run: Run, source: Source, menu: Menu) -> Cost:
    model: Model = built(menu, "model", run.model, source.input_shape, source.head_rows)
    strategy: Strategy = built(menu, "method", run.method)
    params: Params = {name: torch.empty(one.shape, device="meta") for name, one in model.table.items()}
    states = _states(run, menu, strategy, params)
    numbers = sum(value.numel() for value in params.values())
    slots = run.memory.capacity(source.head_rows) if run.memory else 0
    sizes = _sizes(run, source, strategy, slots)
    samples = sum(stage.samples for stage in sizes)
    taught = sum(stage.learned for stage in sizes[1:]) if strategy.teacher else 0
    importance = strategy.importance.samples * run.benchmark.tasks if strategy.importance else 0
    return Cost(
        samples=samples,
        flops=model.flops * (3 * (samples + importance) + taught),  # a backward pass costs two forward passes
        flops_per_sample=3 * model.flops,
        features=math.prod(source.input_shape),
        # Parameters, gradients, updated parameters; of a landscape those that are kept, and gradients of all tasks; features;
        # what the result keeps, once while it is collected and once when it is written.
        member_bytes=3 * FLOAT_BYTES * numbers
        + states
        + 8 * slots
        + 2 * _landscape_bytes(run, strategy, FLOAT_BYTES * numbers)
        + _features_bytes(run, source, strategy, model)
        + 2 * _kept_bytes(run, source, strategy, model),
        shared_bytes=source.value_bytes * (source.train_samples + source.test_samples) * math.prod(source.input_shape),
        disk_bytes=_disk_bytes(run, source, model, strategy),
    )


def _states(run: Run, menu: Menu, strategy: Strategy, params: Params) -> int:
    """Return the bytes of the states of optimiser and method of one member."""
    rates = _values(menu, "optim", run.optim)
    own = Member(values=_values(menu, "method", run.method), lr=rates["lr"])
    both = [built(menu, "optim", run.optim).init(params, rates), strategy.init(params, own)]
    return sum(leaf.numel() * leaf.element_size() for leaf in pytree.tree_leaves(both) if isinstance(leaf, torch.Tensor))


class _Size(NamedTuple):
    """The samples that one stage trains on: those of its own batches, and all, replayed ones too."""

    learned: int
    samples: int


def _sizes(run: Run, source: Source, strategy: Strategy, slots: int) -> list[_Size]:
    """Return what each stage trains on; joint training has one, which is given here as one per task."""
    tasks, own = run.benchmark.tasks, strategy.training
    per_task = math.ceil(source.train_samples * (1 - run.benchmark.validation) / tasks)
    batch, epochs, steps = (own.batch, own.epochs, 0) if own else (run.train.batch, run.train.epochs or 0, run.train.steps or 0)
    replayed = run.memory.batch if run.memory and isinstance(run.memory.batch, int) else 0
    found = []
    for task in range(tasks):
        pool = _pool(strategy, per_task, task, slots)
        learned = steps * batch or pool * epochs
        # Nothing is in memory at the first step, and little soon after; that is left out.
        found.append(_Size(learned, learned + (steps or math.ceil(pool / batch) * epochs) * replayed * len(strategy.replay)))
    return found


def _pool(strategy: Strategy, per_task: int, task: int, slots: int) -> int:
    """Return how many samples an epoch of stage *task* has."""
    if strategy.stages == "cumulative":
        return per_task * (task + 1)
    if strategy.stages == "exemplars":
        return per_task + min(slots, per_task * task)
    return min(slots, per_task * (task + 1)) if strategy.stages == "memory" else per_task


def _disk_bytes(run: Run, source: Source, model: Model, strategy: Strategy) -> int:
    rows = 2 if strategy.stages == "joint" else run.benchmark.tasks + 1
    predictions = source.test_samples * (8 * rows + 2)  # two int16 and one float32 per row; the target, int16
    recorded = _stream_bytes(run) + _lines_bytes(run, strategy) + _kept_bytes(run, source, strategy, model)
    return SIDECAR_BYTES + predictions + recorded + (FLOAT_BYTES * _numbers(model) if run.eval.keep_parameters else 0)


def _stream_bytes(run: Run) -> int:
    """Return the bytes of the evaluation stream: a line has a float64 per task, task, step, and which mask it is under."""
    if run.eval.tier == "core":
        return 0
    tasks = run.benchmark.tasks
    return tasks * len(moments(run.eval.schedule, STREAM_STEPS)) * (8 * tasks + 17)


def _landscape_bytes(run: Run, strategy: Strategy, params_bytes: int) -> int:
    """Return the bytes of the parameters after all tasks, as far as a run keeps them while it is trained."""
    is_measured = run.eval.tier == "full" and strategy.stages != "joint" and run.benchmark.tasks > 1
    return landscape_bytes(run.benchmark.tasks, params_bytes) if is_measured else 0


def _features_bytes(run: Run, source: Source, strategy: Strategy, model: Model) -> int:
    """Return the bytes of what features and parameters are compared with while a run is trained, see `Representation`."""
    if run.eval.tier == "core" or strategy.stages == "joint":
        return 0
    tasks = run.benchmark.tasks
    samples = [min(MOST, source.test_samples // tasks)] * tasks
    return FLOAT_BYTES * _numbers(model) + features_bytes(samples, _width(model))


def _kept_bytes(run: Run, source: Source, strategy: Strategy, model: Model) -> int:
    """Return the bytes of the features and parameters that a result keeps."""
    tasks, found = run.benchmark.tasks, 0
    stages = 1 if strategy.stages == "joint" else tasks
    if run.eval.keep_features:
        pools = source.test_samples, math.floor(source.train_samples * (1 - run.benchmark.validation))
        found += kept_bytes(stages, sum(tasks * min(share_of(tasks), pool // tasks) for pool in pools), _width(model))
    if run.eval.keep_trajectory and landscape_bytes(tasks, FLOAT_BYTES * _numbers(model)):
        found += stages * FLOAT_BYTES * _numbers(model)
    return found


def _numbers(model: Model) -> int:
    """Return how many numbers the parameters of *model* are."""
    return sum(math.prod(one.shape) for one in model.table.values())


def _width(model: Model) -> int:
    """Return how many features enter the head of *model*."""
    return next((one.shape[1] for one in reversed(model.table.values()) if len(one.shape) == 2), 0)


def _lines_bytes(run: Run, strategy: Strategy) -> int:
    """Return the bytes of a landscape in the result: lines of losses, accuracies, and cosines of all pairs after each task."""
    tasks = run.benchmark.tasks
    return 8 * (tasks**3 + tasks * (PLACES + 1)) if _landscape_bytes(run, strategy, 1) else 0


def _values(menu: Menu, kind: str, plugin: Plugin) -> dict[str, Any]:
    return values_per_member(menu.entry(kind, plugin.name).settings(**plugin.settings))
