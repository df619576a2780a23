"""What a result keeps of a member beside numbers: features and activities after each stage, the trajectory of parameters.

Only for runs that ask for it, `eval.keep_features` and `eval.keep_trajectory`; `contilab.metrics.kept` describes the file. Of
features no sample is looked at that is not looked at anyway: the test samples that ranks are measured on, and of the training
samples that probes are fitted to every so many, 1,000 at most in all. Beyond 128 MiB of a run no features are kept, beyond the
bounds of a landscape no parameters, and the file has tensors without a stage.

Shapes: S stages, N test samples, M training samples, F features, K hidden units of all layers.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from contilab.engine.recording.features import Samples, samples_of, share_of
from contilab.engine.recording.subset import spread
from contilab.engine.setup import Setup
from contilab.metrics.kept import TRAJECTORY
from contilab.models.contract import Params

MOST_BYTES = 128 * 2**20  # of the features of one run; chosen: those of 41 tasks with 400 features
DTYPES = {"tested": torch.float32, "learned": torch.float32, "activity": torch.float64, "layer": torch.int64}

Array = np.ndarray[Any, Any]


class KeptStage(NamedTuple):
    """What is kept of one member after a stage, on the host; *layer*: of each unit."""

    tested: Tensor  # [N, F]
    learned: Tensor  # [M, F]
    activity: Tensor  # [K]
    layer: Tensor  # [K]


def keeps_features(setup: Setup, samples: Samples, width: int) -> bool:
    """Tell whether *width* features of *samples* are kept: whether a run asks for it, and it is not too much."""
    if not setup.shared.eval.keep_features:
        return False
    count = len(samples.mixed) + sum(len(thinned(samples, part)) for part in samples.learned)
    return kept_bytes(len(setup.stages), count, width) > 0


def kept_of(tested: Array, learned: Sequence[Tensor], activity: Sequence[Array]) -> KeptStage:
    """Return what is kept of the features *tested* [N, F] and *learned*, and the *activity* [units] of each layer.

    *learned*: of each task, `thinned`.
    """
    layer = [np.full(len(units), place) for place, units in enumerate(activity)]
    return KeptStage(
        tested=torch.from_numpy(tested).to(DTYPES["tested"]),
        learned=torch.cat(list(learned)).to(DTYPES["learned"]),
        activity=torch.from_numpy(np.concatenate([np.zeros(0), *activity])).to(DTYPES["activity"]),
        layer=torch.from_numpy(np.concatenate([np.zeros(0), *layer])).to(DTYPES["layer"]),
    )


def kept_bytes(stages: int, samples: int, width: int) -> int:
    """Return how many bytes *width* features of *samples* take after all *stages*; 0 where they are not kept.

    >>> kept_bytes(5, 2000, 400), kept_bytes(100, 2000, 400)
    (16000000, 0)
    """
    found = 4 * stages * samples * width
    return found if found <= MOST_BYTES else 0


def thinned(samples: Samples, part: Tensor) -> Tensor:
    """Return the lines that are kept of *part*, which has one for each training sample of a task in *samples*."""
    return spread(part, share_of(len(samples.learned)))


def features_kept(setup: Setup, stages: Sequence[KeptStage]) -> dict[str, Array]:
    """Return what the file of a result holds of the features that were kept after *stages*."""
    if not setup.shared.eval.keep_features:
        return {}
    samples = _samples(setup, samples_of(setup.stream, setup.shared.data.digest))
    first = stages[0] if stages else KeptStage(**{name: torch.zeros(0, dtype=dtype) for name, dtype in DTYPES.items()})
    return samples | {
        "features_tested": _stacked([one.tested for one in stages], first.tested),
        "features_learned": _stacked([one.learned for one in stages], first.learned),
        "activity": _stacked([one.activity for one in stages], first.activity),
        "activity_layer": first.layer.numpy(),
    }


def trajectory_kept(setup: Setup, params: Params, stages: Sequence[Params]) -> dict[str, Array]:
    """Return what the file of a result holds of the parameters after *stages*; *params*: some that have their shapes."""
    if not setup.shared.eval.keep_trajectory:
        return {}
    return {f"{TRAJECTORY}{name}": _stacked([own[name] for own in stages], value) for name, value in params.items()}


def stage_facts(stages: Sequence[KeptStage]) -> dict[str, list[int]]:
    """Return the shapes of what a snapshot keeps of *stages*."""
    return {name: [len(stages), *getattr(stages[0], name).shape] for name in DTYPES} if stages else {}


def stage_tensors(stages: Sequence[KeptStage]) -> dict[str, Tensor]:
    """Return what a snapshot keeps of *stages* as tensors."""
    return {name: torch.stack([getattr(one, name) for one in stages]) for name in DTYPES} if stages else {}


def stages_from(tensors: Mapping[str, Tensor]) -> list[KeptStage]:
    """Return the stages of which `stage_tensors` gave these."""
    if not tensors:
        return []
    return [KeptStage(*parts) for parts in zip(*(tensors[name].unbind() for name in KeptStage._fields), strict=True)]


def expected_stages(facts: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
    """Return tensors, without memory, of what a snapshot with these *facts* holds."""
    return {name: torch.empty(*shape, dtype=DTYPES[name], device="meta") for name, shape in facts.items()}


def _stacked(stages: Sequence[Tensor], like: Tensor) -> Array:
    """Return *stages* as [S, ...] on the host; without one, no line of the shape of *like*."""
    lines = torch.stack([one.cpu() for one in stages]) if stages else like[None, ...][:0].cpu()
    found: Array = lines.numpy()
    return found


def _samples(setup: Setup, samples: Samples) -> dict[str, Array]:
    """Return which samples the lines of features are of: row and task of each, and the places of test samples in exams."""
    learned, tasks = [thinned(samples, part) for part in samples.learned], np.arange(len(setup.stream.tasks))
    return {
        "places_tested": torch.cat(samples.places).cpu().numpy(),
        "rows_tested": setup.stream.test_rows[samples.mixed].cpu().numpy().astype(np.int64),
        "tasks_tested": tasks.repeat([len(part) for part in samples.places]),
        "rows_learned": setup.stream.train_rows[torch.cat(learned)].cpu().numpy().astype(np.int64),
        "tasks_learned": tasks.repeat([len(part) for part in learned]),
    }
