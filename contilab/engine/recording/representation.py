"""What is known of the features of one member with `eval.tier = "extended"`, stage after stage.

Numbers, and what later stages are compared with, which goes into snapshots therefore: the parameters after the last stage,
and the features of the test samples of each task right after it. These are at most 1,000 x 1,000 numbers of float32, 4 MB for a
task: where there are more features than samples, their coordinates in the space that the samples span are kept, in which all
products of two samples are the same, and linear CKA knows no more of them. Beyond 128 MiB for all tasks of a run they are not
kept, and there is no similarity.

Shapes: S stages, T tasks, L hidden layers, N samples, F features.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from contilab.engine.recording.kept import KeptStage, expected_stages, stage_facts, stage_tensors, stages_from
from contilab.engine.setup import Setup
from contilab.models.contract import Params

MOST_BYTES = 128 * 2**20  # of the features of all tasks of one run; chosen: those of 84 tasks with 400 features

PREFIX = "representation."  # of its tensors in a snapshot
KEPT = f"{PREFIX}kept."
NUMBERS = ("probe", "rank", "dormant", "dead", "drift", "cka", "passes")  # what a snapshot keeps as text

Arrays = dict[str, "np.ndarray[Any, Any]"]


class Portrait(NamedTuple):
    """What was measured of one member after a stage; nan where a formula is not defined.

    *drift*: norm(theta_i - theta_{i-1}), and divided by norm(theta_{i-1}). *cka*: [T] after the last stage, else none.
    *features* and *params*: what later stages need, on the host. *kept*: what goes into the result.
    """

    probe: list[float]  # [T]
    rank: float
    dormant: list[float]  # [L]
    dead: list[float]  # [L]
    drift: tuple[float, float]
    cka: list[float]
    passes: int
    features: Tensor | None = None  # [N, F] float32
    params: Params | None = None
    kept: KeptStage | None = None


@dataclass
class Representation:
    """All portraits of one member, in order; *passes*: of a sample through the model, that they took."""

    probe: list[list[float]] = field(default_factory=list)
    rank: list[float] = field(default_factory=list)
    dormant: list[list[float]] = field(default_factory=list)
    dead: list[list[float]] = field(default_factory=list)
    drift: list[list[float]] = field(default_factory=list)
    cka: list[float] = field(default_factory=list)
    passes: int = 0
    features: list[Tensor] = field(default_factory=list)
    before: Params = field(default_factory=dict)
    kept: list[KeptStage] = field(default_factory=list)

    def note(self, portrait: Portrait) -> None:
        """Note the next *portrait*; after the last one nothing is kept to compare with."""
        self.probe.append(portrait.probe)
        self.rank.append(portrait.rank)
        self.dormant.append(portrait.dormant)
        self.dead.append(portrait.dead)
        self.drift.append(list(portrait.drift))
        self.cka = portrait.cka
        self.passes += portrait.passes
        self.features = [] if portrait.features is None else [*self.features, portrait.features]
        self.before = portrait.params or {}
        self.kept += [] if portrait.kept is None else [portrait.kept]

    def facts(self) -> dict[str, Any]:
        """Return what a snapshot keeps as text: numbers, and the shapes of tensors."""
        shapes = {"features": [list(one.shape) for one in self.features], "has_before": bool(self.before)}
        kept = {"kept": stage_facts(self.kept)} if self.kept else {}
        return {name: getattr(self, name) for name in NUMBERS} | shapes | kept

    def tensors(self) -> dict[str, Tensor]:
        """Return what a snapshot keeps as tensors."""
        before = {f"{PREFIX}before.{name}": value for name, value in self.before.items()}
        kept = {f"{KEPT}{name}": value for name, value in stage_tensors(self.kept).items()}
        return before | kept | {f"{PREFIX}features.{task}": value for task, value in enumerate(self.features)}


def representation_from(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Representation:
    """Return the representation of which `Representation.facts` and `Representation.tensors` gave these."""
    start = f"{PREFIX}before."
    before = {name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)}
    features = [tensors[f"{PREFIX}features.{task}"] for task in range(len(facts["features"]))]
    kept = stages_from({name.removeprefix(KEPT): value for name, value in tensors.items() if name.startswith(KEPT)})
    return Representation(**{name: facts[name] for name in NUMBERS}, features=features, before=before, kept=kept)


def expected_representation(facts: Mapping[str, Any], params: Params) -> dict[str, Tensor]:
    """Return tensors, without memory, of what a snapshot with these *facts* must hold for a member with *params*."""
    shapes = enumerate(facts["features"])
    found = {f"{PREFIX}features.{task}": torch.empty(shape, device="meta") for task, shape in shapes}
    before = params if facts["has_before"] else {}
    found |= {f"{KEPT}{name}": value for name, value in expected_stages(facts.get("kept", {})).items()}
    return found | {f"{PREFIX}before.{name}": value for name, value in before.items()}


def features_bytes(samples: Sequence[int], width: int) -> int:
    """Return how many bytes are kept of *width* features of the *samples* of each task; 0 where those of all are too many.

    >>> features_bytes([1000] * 5, 400), features_bytes([10], 4000), features_bytes([1000] * 100, 400)
    (8000000, 400, 0)
    """
    found = 4 * sum(count * min(count, width) for count in samples)
    return found if found <= MOST_BYTES else 0


def has_representation(setup: Setup) -> bool:
    """Tell whether features are measured in runs of *setup*."""
    return setup.shared.eval.tier != "core"


def representation_tensors(setup: Setup, own: Representation) -> Arrays:
    """Return what metrics read, see `contilab.metrics.representation`; nan where a run was lost before."""
    if not has_representation(setup):
        return {}
    stages, tasks = len(setup.stages), len(setup.stream.tasks)
    drift = _rows(own.drift, stages, 2)
    is_lost = len(own.probe) < stages or stages < tasks
    return {
        "probe_accuracy": _rows(own.probe, stages, tasks),
        "cka": np.array([np.nan] * tasks if is_lost else own.cka),
        "effective_rank": _rows([[one] for one in own.rank], stages, 1)[:, 0],
        "dormant_share": _rows(own.dormant, stages, len(own.dormant[0]) if own.dormant else 0),
        "dead_share": _rows(own.dead, stages, len(own.dead[0]) if own.dead else 0),
        "drift": drift[:, 0].copy(),
        "drift_relative": drift[:, 1].copy(),
    }


def _rows(rows: list[list[float]], stages: int, width: int) -> "np.ndarray[Any, Any]":
    """Return *rows* as [stages, width], nan for those that are not there."""
    found = np.full((stages, width), np.nan)
    found[: len(rows)] = np.array(rows).reshape(len(rows), width)
    return found
