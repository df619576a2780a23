"""Measures the features of all members after a stage: what linear probes read in them, how they moved, and their rank.

Draws nothing, and writes nothing that training reads. Passes run where the model lies, member after member, so a member has the
numbers of a single run; all other arithmetic is in float64 on the host, by the formulas of `contilab.metrics.representation`.
Heads are not looked at: probes are fitted to the features that enter them, so nearest means are measured like all others.

Shapes: T tasks, N samples, F features, L hidden layers.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from contilab.engine.draws import Stage
from contilab.engine.ensemble import MemberState, initial_params
from contilab.engine.recording.activity import features_and_activity
from contilab.engine.recording.features import Samples, features_of, samples_of
from contilab.engine.recording.kept import keeps_features, kept_of, thinned
from contilab.engine.recording.representation import Portrait, Representation, features_bytes, has_representation
from contilab.engine.setup import Setup, resting
from contilab.metrics.contract import Missing
from contilab.metrics.representation import DEAD, dormant_share, effective_rank, linear_cka, ridge_probe
from contilab.models.contract import Params
from contilab.spec.run import Run

Array = np.ndarray[Any, Any]
Look = Callable[[], None]


def portraits_after(
    setup: Setup, stage: Stage, members: Sequence[MemberState], known: Sequence[Representation | None], look: Look
) -> list[Portrait | None]:
    """Return what is measured of *members* after *stage*, given what is *known* of them from earlier ones.

    None of a member that has diverged, of which nothing is known, and of all in the tier core. *look* is called before each
    pass through the model.
    """
    if not has_representation(setup):
        return [None] * len(members)
    samples = samples_of(setup.stream, setup.shared.data.digest)
    parts = zip(setup.runs, members, known, strict=True)
    return [own if own is None else _portrait(setup, stage, samples, (run, member, own), look) for run, member, own in parts]


def _portrait(
    setup: Setup, stage: Stage, samples: Samples, one: tuple[Run, MemberState, Representation], look: Look
) -> Portrait:
    (run, member, known), stream = one, setup.stream
    forward = partial(resting(setup, member).learner.model.forward, member.params, {})
    features, activity = features_and_activity(forward, stream.test_inputs, samples.mixed, look)
    is_last = stage.task == len(setup.stages) - 1
    sizes = [len(part) for part in samples.tested]
    is_compared = len(setup.stages) == len(stream.tasks) and features_bytes(sizes, features.shape[1]) > 0
    is_kept = keeps_features(setup, samples, features.shape[1])
    probe, cka, learned, own = [], [], [], None
    for task, (train, test) in enumerate(zip(samples.learned, samples.tested, strict=True)):
        seen = features_of(forward, stream.train_inputs, train, look)
        new = features_of(forward, stream.test_inputs, test, look)
        probe.append(_defined(_probe, seen, new, stream.train_rows[train], stream.test_rows[test]))
        if is_kept:
            learned.append(thinned(samples, torch.from_numpy(seen)))
        if is_compared and is_last:
            cka.append(_defined(linear_cka, new, known.features[task].numpy() if task < stage.task else new))
        elif is_compared and task == stage.task:
            own = torch.from_numpy(_narrow(new))
    return Portrait(
        probe=probe,
        rank=_defined(effective_rank, features),
        dormant=[_defined(dormant_share, layer) for layer in activity],
        dead=[_defined(dormant_share, layer, DEAD) for layer in activity],
        drift=_drift(known.before or _initial(setup, run), member.params),
        cka=cka,
        passes=samples.passes,
        features=own,
        params=None if is_last else {name: value.detach().to("cpu", copy=True) for name, value in member.params.items()},
        kept=kept_of(features, learned, activity) if is_kept else None,
    )


def _defined(formula: Callable[..., float], *values: Any) -> float:
    """Return the *formula* of *values*, of which arrays are features or activities; nan where it is not defined."""
    if not all(np.isfinite(value).all() for value in values if isinstance(value, np.ndarray)):
        return float("nan")
    try:
        return formula(*values)
    except Missing:
        return float("nan")


def _probe(seen: Array, new: Array, seen_rows: Tensor, new_rows: Tensor) -> float:
    """Return the accuracy on *new* features [N, F] of a ridge probe of *seen* ones; it tells apart the rows that it saw."""
    rows, labels = np.unique(seen_rows.cpu().numpy(), return_inverse=True)
    weights, offsets = ridge_probe(seen, labels, len(rows))
    chosen = rows[(new @ weights + offsets).argmax(axis=1)]
    return float(np.mean(chosen == new_rows.cpu().numpy()))


def _narrow(features: Array) -> Array:
    """Return *features* [N, F] as float32 with at most N columns, in which the product of any two samples is the same."""
    if features.shape[1] > len(features):
        features = torch.linalg.qr(torch.from_numpy(features.T).double(), mode="r").R.mT.numpy()  # X^T = Q R: X X^T = R^T R
    return np.ascontiguousarray(features, dtype=np.float32)


def _drift(before: Params, now: Params) -> tuple[float, float]:
    """Return norm(now - before), and divided by norm(before); over all parameters, in float64."""
    moved = sum(float((_exact(value) - _exact(before[name])).square().sum()) for name, value in now.items()) ** 0.5
    norm = sum(float(_exact(before[name]).square().sum()) for name in now) ** 0.5  # in one order: a snapshot has its own
    return moved, moved / norm if norm else float("nan")


def _exact(value: Tensor) -> Tensor:
    return value.detach().to("cpu", torch.float64)


def _initial(setup: Setup, run: Run) -> Params:
    return initial_params(setup.learner.model, run.seed, device=torch.device("cpu"), dtype=setup.dtype)
