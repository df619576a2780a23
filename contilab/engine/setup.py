"""What the runs of a group share: plugins, the stream of tasks on the device, stages; and how each member begins."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from contilab import catalog
from contilab.data.blurry import blurred
from contilab.data.contract import Source, Stream
from contilab.engine import masks
from contilab.engine.augmentation import Augmentation, augmentation
from contilab.engine.draws import Draws, Stage
from contilab.engine.ensemble import MemberState, clone, initial_buffers, initial_params
from contilab.engine.memory.entries import no_entries
from contilab.engine.memory.memories import Memories, Pool
from contilab.engine.memory.plan import MemoryPlan
from contilab.engine.mixture import Mixture
from contilab.engine.normalised import normalised
from contilab.engine.pools import place_of, pool_bytes
from contilab.engine.stages import stages
from contilab.engine.step import Learner, Lesson
from contilab.hardware.device import Choice, use_device
from contilab.models.contract import Forward, Params
from contilab.spec.fields import in_common, values_per_member
from contilab.spec.run import Run
from contilab.spec.sections import Memory, Plugin, plugin_from
from contilab.strategies.contract import Member, Strategy


class Setup(NamedTuple):
    """A group, ready to be trained. All runs are equal but for their seeds and per-member settings."""

    runs: tuple[Run, ...]
    learner: Learner
    stream: Stream  # tensors on *device*, inputs where *place* says, in *dtype*, or as stored if there is a normalisation
    plan: MemoryPlan
    stages: tuple[Stage, ...]
    device: torch.device
    dtype: torch.dtype
    augmentation: Augmentation
    mixture: Mixture | None = None  # of a stream whose tasks mix
    place: Choice = Choice("device", "asked for")  # where inputs lie: there, or on the host

    @property
    def masks_seen(self) -> bool:
        """Whether the training mask is what a member has seen, step by step, and not what its tasks have."""
        own = self.shared.benchmark
        return self.mixture is not None and own.scenario == "class" and own.class_mask == "seen"

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
        pool = (self.stream.train_inputs, self.stream.train_rows, self.stream.train_tasks)
        return Lesson(*pool, table.to(self.device), stage.task, is_on_host=self.place.value == "host")


def source_of(run: Run) -> Source:
    """Return where the data of *run* come from, without loading them."""
    source: Source = catalog.entry("benchmark", run.benchmark.name).make(run.benchmark, run.data)
    return source


def learner_of(run: Run, source: Source) -> Learner:
    """Build the plugins of *run*."""
    model = catalog.entry("model", run.model.name).make(_settings("model", run.model), source.input_shape, source.head_rows)
    strategy = catalog.entry("method", run.method.name).make(_settings("method", run.method))
    optim = _optim(run, strategy)
    return Learner(model, strategy, catalog.entry("optim", optim.name).make(_settings("optim", optim)))


def _optim(run: Run, strategy: Strategy) -> Plugin:
    """Return the optimiser of *run*: that of the preset, unless the method brings its own."""
    return run.optim if strategy.training is None else plugin_from(strategy.training.optim)


def prepare(
    runs: Sequence[Run],
    learner: Learner,
    stream: Stream,
    *,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    data_on_device: str = "device",
) -> Setup:
    """Return the setup of *runs*; moves the *stream* to the device, its inputs where *data_on_device* says.

    Raises InputError if its inputs cannot be augmented, and ValueError if the runs are none that can be trained together.
    """
    first, *others = map(_fixed, runs)
    if any(other != first for other in others):
        raise ValueError("runs of one group differ in settings that are not taken per member")
    if device.type == "cuda":
        use_device(str(device))
    run, shape = runs[0], tuple(stream.train_inputs.shape[1:])
    plan = _memory_plan(run, learner, stream)
    views = augmentation(run.train.augment, shape)
    if stream.normalisation is not None:
        learner = learner._replace(model=normalised(learner.model, stream.normalisation, shape, device=device, dtype=dtype))
    if run.benchmark.blurry_share:
        stream = blurred(stream, run.benchmark.blurry_share, digest=run.data.digest)
    planned = stages(run.train, stream, learner.strategy, plan)
    mixture = _mixture(run, stream, planned)
    place = place_of(data_on_device, pool_bytes(stream, dtype), device)
    moved = _moved(stream, device, dtype, inputs_on=device if place.value == "device" else torch.device("cpu"))
    return Setup(tuple(runs), learner, moved, plan, planned, device, dtype, views, mixture, place)


def _fixed(run: Run) -> list[Any]:
    """Return what the optimiser and the strategy of *run* share with those of all runs of a group."""
    owned = [("optim", run.optim), ("method", run.method)]
    return [(plugin.name, in_common(type(own), vars(own))) for kind, plugin in owned for own in [_settings(kind, plugin)]]


def _mixture(run: Run, stream: Stream, planned: Sequence[Stage]) -> Mixture | None:
    """Return how tasks mix; None where each is alone, or all are one stage."""
    own = run.benchmark
    if not (own.fuzzy_steps or own.blurry_share) or len(planned) == 1:
        return None
    parts = tuple(stage.new if stage.fills else stage.samples for stage in planned)
    return Mixture(parts, stream.train_rows.cpu().numpy(), stream.head_rows, own.fuzzy_steps * run.train.batch)


def resting(setup: Setup, member: MemberState) -> Setup:
    """Return *setup* with the model as *member* has it when it is not trained: norms over batches go by its buffers."""
    model, buffers = setup.learner.model, member.buffers
    if not buffers:
        return setup

    def forward(params: Params, _buffers: Params, x: Tensor) -> Forward:
        return model.forward(params, buffers, x)

    return setup._replace(learner=setup.learner._replace(model=model._replace(forward=forward)))


def draws_of(setup: Setup) -> Draws:
    """Return what chance decides for the members of *setup*."""
    return Draws(
        [run.seed for run in setup.runs],
        setup.plan,
        device=setup.device,
        dtype=setup.dtype,
        augmentation=setup.augmentation,
        mixture=setup.mixture,
        masks_seen=setup.masks_seen,
    )


def initial_members(setup: Setup) -> list[MemberState]:
    """Return how each member begins: its own weights, and states made of its own settings."""
    return [_initial_member(setup, run) for run in setup.runs]


def begun_anew(setup: Setup, members: Sequence[MemberState]) -> list[MemberState]:
    """Return *members* with the weights and optimisers that they began with; what their strategies know stays."""
    return [
        first._replace(strategy=member.strategy, stored=member.stored)
        for first, member in zip(initial_members(setup), members, strict=True)
    ]


def initial_memory(setup: Setup) -> Memories:
    """Return the empty memories of all members; their padding shows the first training sample."""
    rows, tasks = (values.cpu().numpy() for values in (setup.stream.train_rows, setup.stream.train_tasks))
    empty = no_entries(setup.plan.capacity, setup.stream.head_rows, filler=int(setup.stages[0].new[0]))
    return Memories(setup.plan, Pool(rows, tasks), [empty] * len(setup.runs))


def _initial_member(setup: Setup, run: Run) -> MemberState:
    params = initial_params(setup.learner.model, run.seed, device=setup.device, dtype=setup.dtype)
    rates = values_per_member(_settings("optim", _optim(run, setup.learner.strategy)))
    values = values_per_member(_settings("method", run.method))
    own = Member(values, rates["lr"], tasks=len(setup.stream.tasks), rows=setup.stream.head_rows)
    slots = (setup.plan.capacity + 1, setup.stream.head_rows) if setup.plan.keeps_logits else (0,)
    buffers = initial_buffers(setup.learner.model, device=setup.device, dtype=setup.dtype)
    return MemberState(
        params=params,
        optimiser=_on_device(setup.learner.optimiser.init(clone(params), rates), setup),
        strategy=_on_device(setup.learner.strategy.init(clone(params), own), setup),
        stored=torch.zeros(slots, device=setup.device, dtype=setup.dtype),
        buffers=buffers,
        frozen=clone(buffers) if setup.learner.strategy.teacher is not None else {},
    )


def _settings(kind: str, plugin: Plugin) -> Any:
    return catalog.entry(kind, plugin.name).settings(**plugin.settings)


def _memory_plan(run: Run, learner: Learner, stream: Stream) -> MemoryPlan:
    strategy, own = learner.strategy, run.memory or Memory(total=0)
    return MemoryPlan(
        capacity=own.capacity(stream.head_rows),
        batch=run.train.batch if own.batch == "train" else own.batch,
        names=strategy.replay,
        insert=own.insert,
        policy=own.policy,
        tasks=len(stream.tasks),
        rows=stream.head_rows,
        reference=strategy.reference,
        keeps_logits=strategy.keeps_logits,
    )


def _moved(stream: Stream, device: torch.device, dtype: torch.dtype, *, inputs_on: torch.device) -> Stream:
    inputs = dtype if stream.normalisation is None else stream.train_inputs.dtype
    return stream._replace(
        train_inputs=stream.train_inputs.to(inputs_on, inputs),
        train_rows=stream.train_rows.to(device),
        train_tasks=stream.train_tasks.to(device),
        test_inputs=stream.test_inputs.to(inputs_on, inputs),
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
