"""How many processes of one machine train the most together, as `bench` measured it; it sets the default of `--workers`."""

import statistics
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from contilab.hardware.profile import Answer, near
from contilab.spec.canonical import canonical

Wanted = tuple[str, dict[str, Any], int, int]  # model, settings, batch and members of what is to be trained


class _Shape(NamedTuple):
    """*what*: model, settings and batch, as text."""

    what: bytes
    members: int


class Crew(NamedTuple):
    """How many processes train the most here, and why."""

    workers: int
    reason: str


def workers(answers: Iterable[tuple[dict[str, Any], Answer]], wanted: Iterable[Wanted], count: int) -> Crew | None:
    """Return whether *count* processes that share the processors or one process trains more; None if nothing was measured.

    *answers*: of this machine, as `Profiles.all` returns them; those of a GPU say nothing. For the members that are *wanted*
    the nearest number stands that was measured. The gains of all shapes that were measured are averaged (geometric mean, each
    shape once).
    """
    measured = {_shape(shape): answer for shape, answer in answers if shape["device"] == "cpu"}
    gains = {shape: gain for shape, answer in measured.items() if (gain := _gain(answer, count))}
    asked = {_Shape(canonical(what), members) for *what, members in wanted}
    found = {one: nearest for one in asked if (nearest := _nearest(one, gains))}
    if not found:
        return None
    mean = statistics.geometric_mean([gains[one] for one in set(found.values())])
    most = max(rate.processes for one in found.values() for rate in measured[one].rates)
    told = f"bench measured {most} processes" + (f", {count} of which reach" if count < most else " at")
    others = {f", {nearest.members} members in place of {one.members}" for one, nearest in found.items() if nearest != one}
    return Crew(count if mean > 1 else 1, f"{told} {mean:.2f} times the samples/s of one{''.join(sorted(others))}")


def _gain(answer: Answer, count: int) -> float | None:
    """Return how many times the samples/s of one process *count* processes train; None if that was not measured.

    Of more processes with as many threads each, as many are taken to train their share.
    """
    alone = max((rate for rate in answer.rates if rate.processes == 1), key=lambda rate: rate.samples_per_s, default=None)
    if alone is None:
        return None
    together = [
        rate.samples_per_s * count / rate.processes
        for rate in answer.rates
        if rate.processes >= count and rate.threads == alone.threads // count
    ]
    return max(together) / alone.samples_per_s if together else None


def _shape(table: dict[str, Any]) -> _Shape:
    return _Shape(canonical([table["model"], table["settings"], table["batch"]]), table["members"])


def _nearest(wanted: _Shape, measured: Collection[_Shape]) -> _Shape | None:
    shapes = (wanted._replace(members=members) for members in near(wanted.members))
    return next((shape for shape in shapes if shape in measured), None)
