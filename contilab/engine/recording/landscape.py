"""The landscape of one member with `eval.tier = "full"`: what was measured of the parameters that its path leads through.

Kept while it is trained: its parameters after each task but the last, which are needed again at the end, and the cosines of
task gradients. Both go into snapshots, so a run that is stopped goes on with the same landscape. What they take is bounded;
beyond that nothing of them is kept, and metrics say so.

Shapes: S stages, T tasks, U places between two parameters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from contilab.engine.ensemble import tree_bytes
from contilab.engine.setup import Setup
from contilab.models.contract import Params

PLACES = 11  # u = 0, .1, ..., 1
MOST_BYTES = 512 * 2**20  # of the parameters of all tasks of one run; chosen: those of eleven ResNet-18
MOST_TASKS = 100  # chosen: cosines of all pairs after each task are 8 MB then, and grow with the third power

PREFIX = "landscape."  # of its tensors in a snapshot
COSINE = f"{PREFIX}cosine"

Arrays = dict[str, "np.ndarray[Any, Any]"]


class Ground(NamedTuple):
    """What was measured of one member after a stage; *params*: its parameters on the host, if they are needed again."""

    cosine: Tensor  # [T, T] float64, nan for tasks not begun
    params: Params | None
    passes: int


@dataclass
class Landscape:
    """What was measured of one member; *passes*: how many forward passes of a sample that was worth.

    *params* after each stage but the last; *loss* [T-1, U] and *few_shot* [T-1] are measured at the end of the run.
    """

    cosine: list[Tensor] = field(default_factory=list)
    params: list[Params] = field(default_factory=list)
    passes: int = 0
    loss: list[list[float]] = field(default_factory=list)
    few_shot: list[float] = field(default_factory=list)

    def note(self, ground: Ground) -> None:
        """Note what was measured after the next stage."""
        self.cosine.append(ground.cosine)
        self.passes += ground.passes
        if ground.params is not None:
            self.params.append(ground.params)

    def facts(self) -> dict[str, int]:
        """Return what a snapshot keeps as text."""
        return {"stages": len(self.cosine), "kept": len(self.params), "passes": self.passes}

    def tensors(self) -> dict[str, Tensor]:
        """Return what a snapshot keeps as tensors."""
        cosine = {COSINE: torch.stack(self.cosine)} if self.cosine else {}
        return cosine | {
            f"{PREFIX}{stage}.{name}": value for stage, own in enumerate(self.params) for name, value in own.items()
        }


def landscape_from(facts: Mapping[str, int], tensors: Mapping[str, Tensor]) -> Landscape:
    """Return the landscape of which `Landscape.facts` and `Landscape.tensors` gave these."""
    cosine = list(tensors[COSINE].unbind()) if facts["stages"] else []
    params = []
    for stage in range(facts["kept"]):
        own = f"{PREFIX}{stage}."
        params.append({name.removeprefix(own): value for name, value in tensors.items() if name.startswith(own)})
    return Landscape(cosine, params, facts["passes"])


def expected_tensors(facts: Mapping[str, int], params: Params, tasks: int) -> dict[str, Tensor]:
    """Return tensors, without memory, of the shapes and dtypes that belong to *facts*; *params*: those of the member."""
    cosine = torch.empty(facts["stages"], tasks, tasks, dtype=torch.float64, device="meta")
    return ({COSINE: cosine} if facts["stages"] else {}) | {
        f"{PREFIX}{stage}.{name}": value.to("meta") for stage in range(facts["kept"]) for name, value in params.items()
    }


def has_landscape(setup: Setup) -> bool:
    """Tell whether the landscape of runs of *setup* is measured: of earlier tasks, so there must be some."""
    return setup.shared.eval.tier == "full" and len(setup.stages) > 1


def keeps_parameters(setup: Setup, params: Params) -> bool:
    """Tell whether parameters like *params* are kept after each task, and gradients held for all of them."""
    return landscape_bytes(len(setup.stream.tasks), tree_bytes(params)) > 0


def landscape_bytes(tasks: int, params_bytes: int) -> int:
    """Return how many bytes the parameters of all *tasks* take, and again their gradients; 0 where they are not kept.

    >>> landscape_bytes(10, 1000), landscape_bytes(10, 10**9), landscape_bytes(101, 1)
    (10000, 0, 0)
    """
    found = tasks * params_bytes
    return found if tasks <= MOST_TASKS and found <= MOST_BYTES else 0


def landscape_tensors(setup: Setup, landscape: Landscape, params: Params) -> Arrays:
    """Return what metrics read, see `contilab.metrics.landscape`: nan where a run did not come to, no line if none is kept."""
    if not has_landscape(setup):
        return {}
    tasks = len(setup.stream.tasks)
    kept = keeps_parameters(setup, params)
    found = {
        "interpolation_loss": np.full((tasks - 1 if kept else 0, PLACES), np.nan),
        "gradient_cosine": np.full((len(setup.stages) if kept else 0, tasks, tasks), np.nan),
        "few_shot_accuracy": np.full(tasks - 1, np.nan),
    }
    measured: tuple[Sequence[Any], ...] = (landscape.loss, landscape.cosine, landscape.few_shot)
    for name, lines in zip(found, measured, strict=True):
        for place, line in enumerate(lines):
            found[name][place] = line
    return found
