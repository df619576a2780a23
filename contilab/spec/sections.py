"""The sections of a run's configuration, each field with type, range, default and meaning.

Keys are final: they are part of every address. A key added after the first release is left out of the address while
it has its default, which must then mean the old behaviour; it goes into `ADDED_LATER`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from contilab.spec.fields import Doc

ADDED_LATER: frozenset[tuple[str, str]] = frozenset(
    {
        ("benchmark", "data"),
        ("benchmark", "first_task"),
        ("benchmark", "angles"),
        ("eval", "schedule"),
        ("eval", "stream_samples"),
        ("eval", "keep_features"),
        ("eval", "keep_trajectory"),
        ("benchmark", "online"),
        ("benchmark", "fuzzy_steps"),
        ("benchmark", "blurry_share"),
    }
)  # (section, key) pairs

SEED_END = 2**53  # seeds stay exact in JSON readers that know only doubles

Seed = Annotated[int, Ge(0), Lt(SEED_END)]
Share = Annotated[float, Ge(0), Lt(1)]
Scenario = Literal["task", "class", "domain"]
StreamSchedule = Literal["dense", "sparse"]


class Contradiction(ValueError):
    """Raised where settings of one section do not go together; *hint*: the way out."""

    def __init__(self, problem: str, hint: str = "change one of these settings") -> None:
        super().__init__(problem)
        self.hint = hint


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Which stream of tasks is learned."""

    name: Annotated[str, Doc("benchmark of the catalog")]
    scenario: Annotated[Scenario, Doc("what is known at test time")]
    tasks: Annotated[int, Ge(1), Le(1000), Doc("number of tasks")] = 5
    class_order_seed: Annotated[Seed | Literal["natural"], Doc("shuffles the classes before they are split")] = "natural"
    task_order_seed: Annotated[Seed | Literal["natural"], Doc("shuffles the tasks")] = "natural"
    validation: Annotated[Share, Doc("share of each class held out of training")] = 0.1
    train_per_task: Annotated[Annotated[int, Ge(1)] | Literal["all"], Doc("training samples per task")] = "all"
    test_per_task: Annotated[Annotated[int, Ge(1)] | Literal["all"], Doc("test samples per task")] = "all"
    class_mask: Annotated[Literal["seen", "all"], Doc("rows active in class-incremental training")] = "seen"
    data: Annotated[str, Doc("name of imported data to use in place of the benchmark's own")] = "default"
    first_task: Annotated[
        Annotated[int, Ge(1)] | Literal["equal"], Doc("classes of the first task; the others share the rest equally")
    ] = "equal"
    online: Annotated[bool, Doc("one pass: no sample is learned twice, but from memory")] = False
    fuzzy_steps: Annotated[int, Ge(0), Le(2**31), Doc("steps on each side of a task boundary in which both tasks mix")] = 0
    blurry_share: Annotated[Share, Doc("share of each task's training samples that come from other tasks")] = 0.0
    angles: Annotated[tuple[Annotated[float, Ge(-360), Le(360)], ...], Doc("degrees of each task; none: 180 t / tasks")] = ()

    def __post_init__(self) -> None:
        """Hold the angles as a tuple of floats: JSON and TOML have lists only, and 80 and 80.0 are one angle."""
        object.__setattr__(self, "angles", tuple(float(angle) for angle in self.angles))


@dataclass(frozen=True, kw_only=True)
class Data:
    """Which data the benchmark is made of: the digest of their unpacked content."""

    name: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """A name of the catalog with its own settings, all defaults written out."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Train:
    """How long each task is trained; exactly one of *epochs* and *steps* is set."""

    epochs: Annotated[Annotated[int, Ge(1)] | None, Doc("passes over each task")] = None
    steps: Annotated[Annotated[int, Ge(1)] | None, Doc("steps per task")] = None
    batch: Annotated[int, Ge(1), Doc("samples per step")] = 64
    augment: Annotated[
        Literal["none", "crop", "flip", "crop_flip"],
        Doc("pictures are learned moved by up to 4 pixels, mirrored, or both, by a draw of each member"),
    ] = "none"


@dataclass(frozen=True, kw_only=True)
class Memory:
    """The replay memory; exactly one of *total* and *per_class* is set."""

    total: Annotated[Annotated[int, Ge(0)] | None, Doc("entries in all (M)")] = None
    per_class: Annotated[Annotated[int, Ge(0)] | None, Doc("entries per class")] = None
    batch: Annotated[Annotated[int, Ge(1)] | Literal["train"], Doc("replayed samples per step; train = train.batch")] = "train"
    policy: Annotated[
        Literal["reservoir", "class_balanced", "ring", "ring_class", "herding"],
        Doc("which samples are kept; ring: the last of each task, ring_class: of each class"),
    ] = "reservoir"
    insert: Annotated[Literal["first_epoch", "every_epoch", "task_end"], Doc("when samples are offered; herding: task_end")] = (
        "first_epoch"
    )

    def __post_init__(self) -> None:
        """Refuse herding while a task is trained: it chooses from the features of the finished task."""
        if self.policy == "herding" and self.insert != "task_end":
            raise Contradiction(f'policy = "herding" chooses at the end of a task, and insert = "{self.insert}"')

    def capacity(self, head_rows: int) -> int:
        """Return how many entries it holds (M); *per_class* counts for each of *head_rows* classes."""
        return self.total if self.total is not None else (self.per_class or 0) * head_rows


@dataclass(frozen=True, kw_only=True)
class Eval:
    """What is recorded besides the accuracy matrix."""

    tier: Annotated[
        Literal["core", "extended", "full"],
        Doc(
            "how much is recorded; extended adds accuracies again and again during training, full also losses between the "
            "parameters of two tasks, cosines of task gradients, and how fast earlier tasks come back"
        ),
    ] = "core"
    schedule: Annotated[
        StreamSchedule, Doc("when: dense, each step up to 50 of a task, then ever more seldom; sparse, up to 10")
    ] = "dense"
    stream_samples: Annotated[int, Ge(1), Doc("test samples of each task that are evaluated then, at most")] = 1000
    keep_parameters: Annotated[bool, Doc("keep the final parameters")] = True
    keep_features: Annotated[
        bool, Doc("keep the features of up to 1,000 training and 1,000 test samples after each task; from the tier extended on")
    ] = False
    keep_trajectory: Annotated[
        bool, Doc("keep the trajectory of the parameters: what they are after each task; of the tier full")
    ] = False

    def __post_init__(self) -> None:
        """Refuse to keep what the tier does not measure; the trajectory first, whose tier measures features too."""
        if self.keep_trajectory and self.tier != "full":
            raise Contradiction(f'keep_trajectory = true needs tier "full", found "{self.tier}"', 'set eval.tier = "full"')
        if self.keep_features and self.tier == "core":
            problem = 'keep_features = true needs tier "extended" or "full", found "core"'
            raise Contradiction(problem, 'set eval.tier = "extended"')


@dataclass(frozen=True, kw_only=True)
class Numerics:
    """The engine settings that may change results, as asked for; the runner resolves `auto` on its machine."""

    precision: Annotated[Literal["auto", "fp32", "bf16"], Doc("arithmetic of the training step")] = "auto"
    compile: Annotated[Literal["auto", "off", "on"], Doc("torch.compile")] = "auto"


@dataclass(frozen=True, kw_only=True)
class Execution:
    """The engine settings that never change results beyond rounding and so stay out of the address."""

    execution: Annotated[
        Literal["auto", "loop", "vmap", "batched", "graphed"], Doc("how members are trained together; graphed needs a GPU")
    ] = "auto"
    max_members: Annotated[int, Ge(1), Le(1024), Doc("runs per group at most")] = 8
    threads: Annotated[Annotated[int, Ge(1), Le(1024)] | Literal["auto"], Doc("threads of the process")] = "auto"
    device: Annotated[str, Doc("auto, cpu, cuda or cuda:N")] = "auto"
    data_on_device: Annotated[
        Literal["auto", "device", "host"],
        Doc("where the data lie; on the host they are brought batch by batch, auto if too large"),
    ] = "auto"
    checkpoint_seconds: Annotated[float, Ge(0), Doc("seconds between two checkpoints; one more at the end of each task")] = 60.0


def plugin_from(table: Mapping[str, Any]) -> Plugin:
    """Return the plugin of a plain *table*: its name, and the other keys as its settings."""
    return Plugin(name=table["name"], settings={key: value for key, value in table.items() if key != "name"})


def table(section: Any) -> dict[str, Any]:
    """Return a section as a plain table; unset fields are left out."""
    if isinstance(section, Plugin):
        return {"name": section.name, **section.settings}
    values = {item.name: getattr(section, item.name) for item in fields(section)}
    return {key: value for key, value in values.items() if value is not None}


Positive = Annotated[float, Gt(0)]
NotNegative = Annotated[float, Ge(0)]
