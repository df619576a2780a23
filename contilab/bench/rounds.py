"""Repetitions in which all contenders take turns, so that what other processes do meanwhile slows all of them alike.

A round beside busy neighbours is measured again, a bounded number of times; then the quietest rounds count.
"""

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, NamedTuple

from contilab.engine.choice.form import reason_of
from contilab.hardware.neighbours import MOST_CORES, Neighbours

AGAIN = 1.0  # further rounds at most, as a share of those asked for; chosen: a busy machine takes twice the time, not for ever

Speed = Callable[[float], float]  # (seconds) -> samples per second


class Round(NamedTuple):
    """One turn of every contender: samples per second by name, and cores that other processes used meanwhile."""

    speeds: Mapping[object, float]
    foreign_cores: float


class Rounds(NamedTuple):
    """The rounds that count, how many were measured *again*, and why contenders failed, by name."""

    kept: tuple[Round, ...]
    again: int
    failed: dict[object, str]

    @property
    def foreign_cores(self) -> float:
        """Cores that other processes used in the busiest round that counts."""
        return max((one.foreign_cores for one in self.kept), default=0.0)

    def speeds(self, name: object) -> list[float]:
        """Return the repetitions of one contender."""
        return [one.speeds[name] for one in self.kept]


def rounds(contenders: Mapping[Any, Speed], *, repetitions: int, seconds: float) -> Rounds:
    """Return *repetitions* rounds in which each of *contenders* gets about *seconds*. One that fails takes no more part."""
    failed: dict[object, str] = {}
    left: dict[object, Speed] = {**contenders}
    done: list[Round] = []
    quiet = 0
    _one(left, failed, 0.0)  # the first steps load libraries, fill caches and compile
    while quiet < repetitions and len(done) < repetitions * (1 + AGAIN):
        done.append(_one(left, failed, seconds))
        quiet += done[-1].foreign_cores <= MOST_CORES
    whole = [one for one in done if left.keys() <= one.speeds.keys()]
    kept = sorted(whole, key=lambda one: one.foreign_cores)[:repetitions]
    return Rounds(tuple(kept), len(done) - repetitions, failed)


def _one(left: dict[object, Speed], failed: dict[object, str], seconds: float) -> Round:
    speeds: dict[object, float] = {}
    with Neighbours() as others:
        for name, speed in list(left.items()):
            try:
                speeds[name] = speed(seconds)
            except Exception as error:  # noqa: BLE001  impossible to compile, out of memory: a row with a reason
                failed[name] = reason_of(error)
                del left[name]
    return Round(speeds, others.cores)


def middle(speeds: list[float]) -> tuple[float, float]:
    """Return the median of *speeds* and their spread, (largest - smallest) / median.

    >>> middle([90.0, 100.0, 120.0])
    (100.0, 0.3)
    """
    found = median(speeds)
    return found, (max(speeds) - min(speeds)) / found
