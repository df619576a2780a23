"""Whether what a study measured agrees with what was published, or with what was recorded of the same study before.

Cells are compared one by one with the cell of the study that differs in the fewest settings. A cell passes if

    |ours - theirs| <= 3 sqrt(sem_ours^2 + sem_theirs^2) + 0.5 points (chosen),

and a band if our mean lies in it, widened by 3 of our own sem on both sides. Only verified and recorded cells whose
every setting is stated and equal give a verdict, and bands under the settings that they are for; both from at least five
seeds, or as many as a number of our own was recorded with, if these are fewer. All else is printed with its reason.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import hypot, sqrt
from statistics import fmean, stdev
from typing import Any, NamedTuple

from contilab.report.published.table import Band, Cell, Table

SIGMAS = 3.0
SLACK = 0.5  # points of accuracy
SEEDS = 5  # at least


class Ours(NamedTuple):
    """A cell of the study: its name, its settings by dotted key, the final accuracy of each seed that has one, in percent.

    planned: seeds in all; those that diverged or have not finished have no value.
    """

    name: str
    settings: Mapping[str, Any]
    values: tuple[float, ...]
    planned: int

    @property
    def mean(self) -> float:
        """Mean over seeds, percent."""
        return fmean(self.values)

    @property
    def sem(self) -> float:
        """Standard error of the mean, percent; infinite for a single seed, of which nothing is known."""
        return stdev(self.values) / sqrt(len(self.values)) if len(self.values) > 1 else float("inf")


class Verdict(NamedTuple):
    """What came of one cell or band.

    passed: None if nothing was decided, which *reason* explains. differences: settings that are not those of the source, in
    words; those that do not matter to a band too.
    """

    reference: Cell | Band
    ours: Ours
    differences: tuple[str, ...]
    passed: bool | None
    reason: str = ""


def verdicts(table: Table, study: Sequence[Ours]) -> list[Verdict]:
    """Return the verdict on every cell and band of *table* that *study* has a cell of the same method and scenario for.

    Of a band that holds under several settings there are those that the study has, or else the nearest one.
    """
    bands: dict[tuple[str, str, float, float], list[Verdict]] = {}
    for band in table.bands:
        bands.setdefault((band.method, band.scenario, band.low, band.high), []).extend(_judged(table, band, study))
    cells = [verdict for cell in table.cells for verdict in _judged(table, cell, study)]
    return [*cells, *(verdict for alike in bands.values() for verdict in _nearest(alike))]


def tolerance(cell: Cell, ours: Ours) -> float:
    """Return by how many points *ours* may differ from *cell*.

    >>> cell = Cell("er", "class", 88.79, 0.2, {})
    >>> round(tolerance(cell, Ours("", {}, (88.0, 90.0), 2)), 3)  # 3 sqrt(1 + 0.04) + 0.5
    3.559
    """
    return SIGMAS * hypot(ours.sem, cell.sem or 0.0) + SLACK


def is_allowed(reference: Cell | Band, ours: Ours) -> bool:
    """Tell whether *ours* is no farther off than is allowed, whether or not that decides anything; a single seed always is."""
    if isinstance(reference, Cell):
        return abs(ours.mean - reference.mean) <= tolerance(reference, ours)
    return reference.low - SIGMAS * ours.sem <= ours.mean <= reference.high + SIGMAS * ours.sem


def _judged(table: Table, reference: Cell | Band, study: Sequence[Ours]) -> list[Verdict]:
    """Return the verdict on the cell of *study* that is nearest to *reference*; none if it has no such method and scenario."""
    same = [ours for ours in study if _is_same(reference, ours)]
    if not same:
        return []
    ours = min(same, key=lambda each: (len(_weighty(reference, each)), len(_differing(reference, each))))
    differences = tuple(_in_words(table, reference, ours, key) for key in _differing(reference, ours))
    reason = _undecided(table, reference, ours)
    return [Verdict(reference, ours, differences, None if reason else is_allowed(reference, ours), reason)]


def _nearest(alike: Sequence[Verdict]) -> Sequence[Verdict]:
    distances = [len(_weighty(verdict.reference, verdict.ours)) for verdict in alike]
    equal = [verdict for verdict, distance in zip(alike, distances, strict=True) if distance == 0]
    return equal or [alike[distances.index(min(distances))]] if alike else []


def _is_same(reference: Cell | Band, ours: Ours) -> bool:
    asked = (reference.method, reference.scenario)
    return asked == (ours.settings["method.name"], ours.settings["benchmark.scenario"])


def _differing(reference: Cell | Band, ours: Ours) -> list[str]:
    """Return the keys of settings that differ; what another optimiser or model does not know says no more than its name."""
    theirs, here = reference.settings, ours.settings
    names = (f"{kind}.name" for kind in ("model", "optim"))
    others = tuple(name.removesuffix("name") for name in names if here.get(name) != theirs.get(name))
    differing = (key for key, value in theirs.items() if here.get(key) != value)
    return [key for key in differing if key in here or not key.startswith(others)]


def _weighty(reference: Cell | Band, ours: Ours) -> list[str]:
    """Return the keys of the differing settings that keep *reference* from giving a verdict."""
    free = reference.free if isinstance(reference, Band) else frozenset()
    return [key for key in _differing(reference, ours) if key not in free]


def _in_words(table: Table, reference: Cell | Band, ours: Ours, key: str) -> str:
    is_own = isinstance(reference, Band) and key in reference.own
    said = "the band is for" if is_own else f"{table.said} with"
    return f"{key} = {_shown(ours.settings.get(key))}, {said} {_shown(reference.settings[key])}"


def _undecided(table: Table, reference: Cell | Band, ours: Ours) -> str:
    """Return the first reason why *ours* neither passes nor fails, "" if there is none; those of the source come first."""
    return next((reason for reason, holds in _reasons(table, reference, ours) if holds), "")


def _reasons(table: Table, reference: Cell | Band, ours: Ours) -> Iterator[tuple[str, bool]]:
    seeds, weighty = len(ours.values), len(_weighty(reference, ours))
    yield "no seed has an accuracy", seeds == 0
    if isinstance(reference, Cell):
        yield f"the number is {table.status}, not read in its source", table.status == "recalled"
        yield "published without a spread", reference.sem is None
        yield "the source does not state every setting", bool(table.not_stated)
    yield "one setting differs" if weighty == 1 else f"{weighty} settings differ", weighty > 0
    needed = min(SEEDS, table.seeds) if table.status == "recorded" else SEEDS
    yield f"a verdict needs {needed} seeds, here: {seeds}", seeds < needed


def _shown(value: Any) -> str:
    return "absent" if value is None else str(value)
