"""How long training takes, from what `bench` measured on this machine: shapes it knows, others by their arithmetic."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from contilab.hardware.profile import Answer, Rate, near
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


def known_of(work: Work, measured: Sequence[Known]) -> Known | None:
    """Return what was *measured* of the shape of *work*, of the number of members that is nearest; None if nothing was."""
    wanted = _shape(work.model, work.settings, work.features, work.batch)
    by_members = {one.shape["members"]: one for one in reversed(measured) if _shape_of(one) == wanted}  # the fastest stays
    return next((by_members[members] for members in near(work.members) if members in by_members), None)


def time(works: Sequence[Work], measured: Sequence[Known]) -> Time:
    """Return how long all of *works* takes, one after the other, on the whole machine.

    A shape that was measured with nearly as many members is taken to be as fast. Any other is taken to reach the operations per
    second of the most similar one that was measured, of the same model if there is one. Answers without the arithmetic of a
    sample, as earlier versions wrote them, tell of their own shape only.
    """
    found = [known_of(work, measured) for work in works]
    counted = [one for one in measured if one.flops_per_sample]
    if not works or (None in found and not counted):
        return Time(None, UNKNOWN)
    seconds, seen = 0.0, 0
    others: dict[str, None] = {}  # each once
    for work, one in zip(works, found, strict=True):
        seconds += work.samples / one.rate.samples_per_s if one else _scaled(work, counted)
        seen += work.flops if one else 0
        if one and one.shape["members"] != work.members:
            others[f"{one.shape['members']} members in place of {work.members}"] = None
    share = seen / max(1, sum(work.flops for work in works))
    return Time(seconds, _basis(share, list(others)))


def _basis(share: float, others: Sequence[str]) -> str:
    """Return how sure a time is; *others*: which numbers of members were measured in place of those that are trained."""
    told = "; ".join((*others, "training alone, on an idle machine with as many workers as are fastest"))
    if share == 1:
        return f"{'nearly ' if others else ''}sure: bench measured all of these shapes here; {told}"
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
    return _shape(*(one.shape[name] for name in ("model", "settings", "features", "batch")))


def _shape(*parts: Any) -> bytes:
    return canonical(list(parts))
