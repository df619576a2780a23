"""How many processes of one machine train the most together, as `bench` measured it; it sets the default of `--workers`."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from contilab.hardware.profile import Answer
from contilab.spec.canonical import canonical


class Crew(NamedTuple):
    """How many processes train the most here, and why."""

    workers: int
    reason: str


def workers(
    answers: Iterable[tuple[dict[str, Any], Answer]], wanted: Iterable[tuple[str, dict[str, Any], int, int]], count: int
) -> Crew | None:
    """Return whether *count* processes that share the processors or one process trains more; None if nothing was measured.

    *answers*: of this machine, as `Profiles.all` returns them; those of a GPU say nothing. *wanted*: model, settings,
    batch and members of what is to be trained. The gains of all shapes that were measured are averaged (geometric mean, each
    shape once).
    """
    by_shape = {
        _key(shape["model"], shape["settings"], shape["batch"], shape["members"]): answer
        for shape, answer in answers
        if shape["device"] == "cpu"
    }
    found = [by_shape[key] for key in {_key(*one) for one in wanted} if key in by_shape]
    gains = [gain for answer in found if (gain := _gain(answer, count))]
    if not gains:
        return None
    mean = math.prod(gains) ** (1 / len(gains))
    told = f"bench measured {count} processes at {mean:.2f} times the samples/s of one"
    return Crew(count if mean > 1 else 1, told)


def _gain(answer: Answer, count: int) -> float | None:
    together = max((rate.samples_per_s for rate in answer.rates if rate.processes == count), default=0.0)
    alone = max((rate.samples_per_s for rate in answer.rates if rate.processes == 1), default=0.0)
    return together / alone if together and alone else None


def _key(model: str, settings: dict[str, Any], batch: int, members: int) -> bytes:
    return canonical([model, settings, batch, members])
