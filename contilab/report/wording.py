"""What is said of rankings and of two studies, alike in Markdown and HTML."""

from collections.abc import Iterable

from contilab.metrics.contract import Absent
from contilab.report.against import Against
from contilab.report.standing import Standing
from contilab.report.statistics.ranks import Ranking
from contilab.report.table import Column, Entry, Line, Table


def standing_text(standing: Standing) -> str:
    """Return what the ranking shows and how far it goes, in sentences."""
    found = standing.ranking
    where = (
        f"Mean rank of each method by acc over {', '.join(standing.presets)}; N = {found.benchmarks} benchmarks, never seeds."
    )
    if standing.left_out:
        why = "not in each of them, or with several variants of which none was selected"
        where += f" Not ranked, since {why}: {', '.join(standing.left_out)}."
    if standing.short:
        where += f" Means of fewer seeds than planned: {', '.join(standing.short)}."
    p = f"Friedman: {found.p.reason}." if isinstance(found.p, Absent) else f"Friedman p = {found.p:.4g}."
    if isinstance(found.critical, Absent):
        return f"{where} {p} Nemenyi: {found.critical.reason}."
    critical = f"Nemenyi critical difference at .05: {found.critical:.2f} of {len(found.names) - 1} ranks possible."
    describe = "" if found.is_telling else f" {_why_only_described(found)}: the ranks only describe."
    return f"{where} {p} {critical}{describe}"


def _why_only_described(found: Ranking) -> str:
    if not found.is_separable:
        return "No two methods can differ by that much"
    return "Even if all benchmarks agreed, the best method could not be told from half of the others"


def standing_table(standing: Standing) -> Table:
    """Return method by mean rank, the best first."""
    order = sorted(zip(standing.ranking.ranks, standing.ranking.names, strict=True))
    lines = tuple(Line(name, "", (Entry(f"{rank:.2f}", sort=rank),)) for rank, name in order)
    return Table("method", (Column("mean rank", "1 is best", "lower"),), lines, ())


def against_text(one: Against) -> Iterable[str]:
    """Return what must be known before the numbers of two studies: shared runs, and settings that differ."""
    if one.shared:
        yield f"{one.shared} runs are the same in both studies: their differences are 0 by construction."
    differing = {label: found for label, found in one.differences.items() if found}
    if not differing:
        yield "The cells have the same settings in both studies."
    for label, found in differing.items():
        yield f"{label} differs: {'; '.join(found)}."
