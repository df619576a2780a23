"""How long training takes, from what `bench` measured on this machine: shapes it knows exactly, others by their arithmetic."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from contilab.hardware.profile import Answer, Rate
from contilab.spec.canonical import canonical

UNKNOWN = "unknown: contilab bench measures samples a second on this machine"
Answers = Sequence[tuple[dict[str, Any], Answer]]  # of this machine, as `Profiles.all` returns them


class Work(NamedTuple):
    """Runs to be trained in groups of *members*: *samples* in all, new and replayed, and floating-point operations.

    *flops_per_sample*: of a forward and a backward pass. *features*: numbers per input.
    """

    model: str
    settings: dict[str, Any]
    features: int
    batch: int
    members: int
    samples: int
    flops: int
    flops_per_sample: int


class Known(NamedTuple):
    """The fastest of all that was measured of one shape, and the arithmetic of a sample of it, 0 if unknown."""

    shape: dict[str, Any]
    rate: Rate
    flops_per_sample: float


class Time(NamedTuple):
    """Seconds that the machine needs for some work, None if nothing was measured; *basis*: what they rest on, how surely."""

    seconds: float | None
    basis: str


def known(answers: Answers) -> list[Known]:
    """Return the fastest rate of each shape, fastest first: where several devices were measured, the fastest counts."""
    found = [
        Known(shape, max(answer.rates, key=lambda rate: rate.samples_per_s), answer.flops_per_sample)
        for shape, answer in answers
    ]
    return sorted(found, key=lambda one: -one.rate.samples_per_s)


def rate_of(work: Work, measured: Sequence[Known]) -> Rate | None:
    """Return the rate of exactly the shape of *work*, if it was measured."""
    wanted = _shape(work.model, work.settings, work.features, work.batch, work.members)
    return next((one.rate for one in measured if _shape_of(one) == wanted), None)


def time(works: Sequence[Work], measured: Sequence[Known]) -> Time:
    """Return how long all of *works* takes, one after the other, on the whole machine.

    A shape that was not measured is taken to reach the operations per second of the most similar one that was, of the same
    model if there is one. Answers without the arithmetic of a sample, as earlier versions wrote them, tell of their own shape
    only.
    """
    rates = [rate_of(work, measured) for work in works]
    counted = [one for one in measured if one.flops_per_sample]
    if not works or (None in rates and not counted):
        return Time(None, UNKNOWN)
    seconds, exact = 0.0, 0
    for work, rate in zip(works, rates, strict=True):
        seconds += work.samples / rate.samples_per_s if rate else _scaled(work, counted)
        exact += work.flops if rate else 0
    share = exact / max(1, sum(work.flops for work in works))
    return Time(seconds, _basis(share))


def _basis(share: float) -> str:
    told = "training alone, on an idle machine with as many workers as are fastest"
    if share == 1:
        return f"sure: bench measured all of these shapes here; {told}"
    if share == 0:
        return f"rough: bench measured none of these shapes here, so it is scaled by operations from others; {told}"
    return f"fair: bench measured shapes with {share:.0%} of the operations here, the rest is scaled by them; {told}"


def _scaled(work: Work, measured: Sequence[Known]) -> float:
    own = [one for one in measured if one.shape["model"] == work.model and one.shape["settings"] == work.settings]
    nearest = min(own or measured, key=lambda one: _distance(work, one))
    return work.samples * work.flops_per_sample / nearest.flops_per_sample / nearest.rate.samples_per_s


def _distance(work: Work, one: Known) -> float:
    return abs(math.log(work.batch / one.shape["batch"])) + abs(math.log(work.members / one.shape["members"]))


def _shape_of(one: Known) -> bytes:
    return _shape(*(one.shape[name] for name in ("model", "settings", "features", "batch", "members")))


def _shape(*parts: Any) -> bytes:
    return canonical(list(parts))
