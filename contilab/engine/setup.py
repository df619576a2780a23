"""What the runs of a group share: plugins, the stream of tasks on the device, stages; and how each member begins."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils import _pytree as pytree

from contilab import catalog
from contilab.data.contract import Source, Stream
from contilab.engine import masks, memory
from contilab.engine.draws import MemoryPlan, Stage
from contilab.engine.ensemble import MemberState, clone, initial_params
from contilab.engine.schedule import Schedule
from contilab.engine.step import Learner, Lesson
from contilab.models.contract import Params
from contilab.spec.fields import values_per_member
from contilab.spec.run import Run
from contilab.spec.sections import Plugin
from contilab.strategies.contract import Member


class Setup(NamedTuple):
    """A group, ready to be trained. All runs are equal but for their seeds and per-member settings."""

    runs: tuple[Run, ...]
    learner: Learner
    stream: Stream  # tensors on *device*, inputs in *dtype*
    plan: MemoryPlan
    stages: tuple[Stage, ...]
    device: torch.device
    dtype: torch.dtype

    @property
    def shared(self) -> Run:
        """The run whose settings stand for all, but for seed and per-member settings."""
        return self.runs[0]

    @property
    def rows(self) -> masks.Rows:
        """The head rows of each task."""
        return tuple(task.rows for task in self.stream.tasks)

    @property
    def steps(self) -> int:
        """The steps of all stages."""
        return sum(stage.schedule.steps for stage in self.stages)

    def last_task(self, stage: Stage) -> int:
        """Return the latest task that is learned once *stage* is trained."""
        return stage.task if len(self.stages) > 1 else len(self.stream.tasks) - 1

    def lesson(self, stage: Stage) -> Lesson:
        """Return what all members share while *stage* is trained."""
        table = masks.training_masks(self.shared.benchmark, self.rows, self.stream.head_rows, last=self.last_task(stage))
        return Lesson(self.stream.train_inputs, self.stream.train_rows, self.stream.train_tasks, table.to(self.device))


def source_of(run: Run) -> Source:
    """Return where the data of *run* come from, without loading them."""
    source: Source = catalog.entry("benchmark", run.benchmark.name).make(run.benchmark)
    return source


def learner_of(run: Run, source: Source) -> Learner:
    """Build the plugins of *run*."""
    model = catalog.entry("model", run.model.name).make(_settings("model", run.model), source.input_shape, source.head_rows)
    strategy = catalog.entry("method", run.method.name).make(_settings("method", run.method))
    return Learner(model, strategy, catalog.entry("optim", run.optim.name).make(_settings("optim", run.optim)))


def prepare(
    runs: Sequence[Run], learner: Learner, stream: Stream, *, device: torch.device, dtype: torch.dtype = torch.float32
) -> Setup:
    """Return the setup of *runs*; moves the *stream* to the device."""
    run = runs[0]
    plan = _memory_plan(run, learner, stream.head_rows)
    stages = _stages(run, stream, every_epoch=plan.every_epoch, is_joint=learner.strategy.stages == "joint")
    return Setup(tuple(runs), learner, _moved(stream, device, dtype), plan, stages, device, dtype)


def initial_members(setup: Setup) -> list[MemberState]:
    """Return how each member begins: its own weights, states made of its own settings, an empty memory."""
    return [_initial_member(setup, run) for run in setup.runs]


def _initial_member(setup: Setup, run: Run) -> MemberState:
    params = initial_params(setup.learner.model, run.seed, device=setup.device, dtype=setup.dtype)
    rates = values_per_member(_settings("optim", run.optim))
    own = Member(values=values_per_member(_settings("method", run.method)), lr=rates["lr"])
    return MemberState(
        params=params,
        optimiser=_on_device(setup.learner.optimiser.init(clone(params), rates), setup),
        strategy=_on_device(setup.learner.strategy.init(clone(params), own), setup),
        memory=memory.empty(setup.plan.capacity, filler=int(setup.stages[0].samples[0]), device=setup.device),
    )


def _settings(kind: str, plugin: Plugin) -> Any:
    return catalog.entry(kind, plugin.name).settings(**plugin.settings)


def _memory_plan(run: Run, learner: Learner, head_rows: int) -> MemoryPlan:
    names = learner.strategy.replay
    if run.memory is None:
        return MemoryPlan(capacity=0, batch=0, names=names, every_epoch=False)
    capacity = run.memory.capacity(head_rows)
    batch = run.train.batch if run.memory.batch == "train" else run.memory.batch
    return MemoryPlan(capacity=capacity, batch=batch, names=names, every_epoch=run.memory.insert == "every_epoch")


def _stages(run: Run, stream: Stream, *, every_epoch: bool, is_joint: bool) -> tuple[Stage, ...]:
    """Return the stages; joint training has one, with the epochs of one task but the steps of all of them together."""
    parts = [task.train.cpu().numpy() for task in stream.tasks]
    tasks_per_stage = len(parts) if is_joint else 1
    stages: list[Stage] = []
    offered = 0
    for number, samples in enumerate([np.concatenate(parts)] if is_joint else parts):
        steps = (run.train.steps or 0) * tasks_per_stage
        epochs = Schedule(len(samples), run.train.batch, steps).steps_per_epoch * (run.train.epochs or 0)
        schedule = Schedule(len(samples), run.train.batch, steps or epochs)
        stages.append(Stage(number, samples, schedule, offered))
        offered += schedule.offered(schedule.steps, every_epoch=every_epoch)
    return tuple(stages)


def _moved(stream: Stream, device: torch.device, dtype: torch.dtype) -> Stream:
    return stream._replace(
        train_inputs=stream.train_inputs.to(device, dtype),
        train_rows=stream.train_rows.to(device),
        train_tasks=stream.train_tasks.to(device),
        test_inputs=stream.test_inputs.to(device, dtype),
        test_rows=stream.test_rows.to(device),
        tasks=tuple(
            task._replace(train=task.train.to(device), validation=task.validation.to(device), test=task.test.to(device))
            for task in stream.tasks
        ),
    )


def _on_device(tree: Any, setup: Setup) -> Any:
    return pytree.tree_map(lambda leaf: leaf.to(setup.device), tree)


def params_count(params: Params) -> int:
    """Return how many numbers *params* hold."""
    return sum(value.numel() for value in params.values())
