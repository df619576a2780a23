"""Whether what a study measured agrees with what was published, or with what was recorded of the same study before.

Cells are compared one by one with the cell of the study that differs in the fewest settings. A cell passes if

    |ours - theirs| <= 3 sqrt(sem_ours^2 + sem_theirs^2) + 0.5 points (chosen),

and a band if our mean lies in it, widened by 3 of our own sem on both sides. Only verified and recorded cells whose
every setting is stated and equal give a verdict, and bands under equal settings from at least five seeds; everything else is
printed with its reason.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import hypot, sqrt
from statistics import fmean, stdev
from typing import Any, NamedTuple

from contilab.report.published.table import Band, Cell, Table

SIGMAS = 3.0
SLACK = 0.5  # points of accuracy
SEEDS = 5  # for a band


class Ours(NamedTuple):
    """A cell of the study: its settings by dotted key, the final accuracy of each finished seed in percent, and its name."""

    name: str
    settings: Mapping[str, Any]
    values: tuple[float, ...]

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

    passed: None if nothing was decided, which *reason* explains. differences: settings that are not those of the source.
    """

    reference: Cell | Band
    ours: Ours | None
    differences: tuple[str, ...]
    passed: bool | None
    reason: str = ""


def verdicts(table: Table, study: Sequence[Ours]) -> list[Verdict]:
    """Return the verdict on every cell and band of *table* that *study* has a cell of the same method and scenario for."""
    references: list[Cell | Band] = [*table.cells, *table.bands]
    found = [_judged(table, reference, study) for reference in references]
    return [verdict for verdict in found if verdict is not None]


def tolerance(cell: Cell, ours: Ours) -> float:
    """Return by how many points *ours* may differ from *cell*.

    >>> cell = Cell("er", "class", 88.79, 0.2, {})
    >>> round(tolerance(cell, Ours("", {}, (88.0, 90.0))), 3)  # 3 sqrt(1 + 0.04) + 0.5
    3.559
    """
    return SIGMAS * hypot(ours.sem, cell.sem or 0.0) + SLACK


def _judged(table: Table, reference: Cell | Band, study: Sequence[Ours]) -> Verdict | None:
    same = [ours for ours in study if _is_same(reference, ours)]
    if not same:
        return None
    ours = min(same, key=lambda each: len(list(_differences(reference, each))))
    differences = tuple(f"{named}, {table.said} with {theirs}" for named, theirs in _differences(reference, ours))
    reason = _undecided(table, reference, ours, differences)
    return Verdict(reference, ours, differences, None if reason else _passes(reference, ours), reason)


def _is_same(reference: Cell | Band, ours: Ours) -> bool:
    asked = (reference.method, reference.scenario)
    return asked == (ours.settings["method.name"], ours.settings["benchmark.scenario"])


def _differences(reference: Cell | Band, ours: Ours) -> Iterable[tuple[str, str]]:
    """Yield each setting that differs, as it is here, and its value there."""
    for key, theirs in reference.settings.items():
        value = ours.settings.get(key)
        if value != theirs:
            yield f"{key} = {_shown(value)}", _shown(theirs)


def _undecided(table: Table, reference: Cell | Band, ours: Ours, differences: Sequence[str]) -> str:
    seeds, several = len(ours.values), len(differences) > 1
    reasons = {"no seed has finished": seeds == 0, "one setting differs": len(differences) == 1}
    reasons |= {f"{len(differences)} settings differ": several}
    if isinstance(reference, Band):
        reasons |= {f"a band needs {SEEDS} seeds, here are {seeds}": seeds < SEEDS}
    else:
        reasons |= {
            f"the number is {table.status}, not read in its source": table.status == "recalled",
            "published without a spread": reference.sem is None,
            f"not stated in the source: {', '.join(table.not_stated)}": bool(table.not_stated),
            "one seed has no spread": seeds == 1,
        }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _passes(reference: Cell | Band, ours: Ours) -> bool:
    if isinstance(reference, Cell):
        return abs(ours.mean - reference.mean) <= tolerance(reference, ours)
    return reference.low - SIGMAS * ours.sem <= ours.mean <= reference.high + SIGMAS * ours.sem


def _shown(value: Any) -> str:
    return "absent" if value is None else str(value)
