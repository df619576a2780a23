"""`contilab verify`: a study beside published or recorded numbers, protocol matched setting by setting.

The protocol stands first: what a number means must be known before it is seen to pass or fail.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from contilab.cli.columns import columns
from contilab.cli.options import DEFAULT_STORE, StoreOption
from contilab.cli.reference import describe_number, describe_table
from contilab.cli.width import folded, line_width
from contilab.errors import UsageError

if TYPE_CHECKING:
    from contilab.report.published.table import Band, Cell, Table
    from contilab.report.published.verdict import Ours, Verdict

TABLES = ("hsu2018", "smnist_1epoch", "vandeven2018", "vandeven2022")  # as written there, which loads numpy
RECORDED = ("hsu2018_short", "smnist_1epoch_short", "vandeven_short")  # our own, of the manifests of these names
HEAD = ["method", "scenario", "published", "ours", "seeds", "difference", "allowed", "verdict"]
WORDS = {True: "pass", False: "FAIL", None: "-"}
RULE = "A cell passes if it differs by no more than is allowed: 3 standard errors of both and half a point."
BAND = "A band passes if our mean lies in it, or outside by no more than is allowed: 3 standard errors of ours. Its ground:"
WIDTH = 120  # at most, of lists that are broken


def verify(
    study: Annotated[str, typer.Argument(help="The study to compare.")],
    *,
    against: Annotated[
        list[str],
        typer.Option(
            metavar="TABLE",
            help=f"Published numbers: {', '.join(TABLES)}. Our own, recorded: {', '.join(RECORDED)}. May be repeated.",
        ),
    ],
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Compare a study with published numbers, or a short one with our recorded ones; exit code 3 if a verdict is a failure."""
    from contilab.report.published.cells import cells_of
    from contilab.report.published.table import read_table
    from contilab.report.published.verdict import verdicts
    from contilab.store.store import open_store

    tables, opened = [read_table(name) for name in dict.fromkeys(against)], open_store(store)
    ours = cells_of(opened, opened.study(study))
    compared = [(table, verdicts(table, ours)) for table in tables]
    for table, found in compared:  # before the first is printed
        _check(study, table, found)
    typer.echo(folded("\n\n\n".join("\n".join(_page(study, table, found)) for table, found in compared)))
    if any(verdict.passed is False for _, found in compared for verdict in found):
        raise typer.Exit(3)


def _page(study: str, table: "Table", found: Sequence["Verdict"]) -> Iterator[str]:
    yield from (table.title, describe_table(table), "", *protocol(table, found), "")
    yield columns([_head(table), *map(_row, found)], right=range(3, 7), width=line_width())
    yield from ("", *rules(found), *without(found), *lost(study, found), _count(found))


def protocol(table: "Table", found: Sequence["Verdict"]) -> Iterator[str]:
    """Yield what the settings of the compared cells are beside those of *table*, in lines: each difference once."""
    yield f"Protocol of {len(found)} cell{'s' if len(found) > 1 else ''}"
    if table.not_stated:
        yield folded(f"not stated in the source: {', '.join(table.not_stated)}", WIDTH)
    shared = [one for one in found[0].differences if all(one in other.differences for other in found)]
    if shared:
        yield from _listed("in all of them" if len(found) > 1 else _name(found[0]), shared)
    alike: dict[tuple[str, ...], list[Verdict]] = {}
    for verdict in found:
        alike.setdefault(tuple(one for one in verdict.differences if one not in shared), []).append(verdict)
    for own, verdicts in alike.items():
        if own:
            yield from _listed("; ".join(map(_name, verdicts)), own)
    equal = len(alike.get((), ()))
    if equal and not shared:
        yield f"{'every' if equal == len(found) else 'in the others every'} setting that is stated is equal"
    if free := sorted({key for verdict in found for key in getattr(verdict.reference, "free", ())}):
        yield f"bands hold for any {', '.join(free)}"


def rules(found: Sequence["Verdict"]) -> Iterator[str]:
    """Yield when a cell passes, and when a band does and on what it rests, in lines."""
    from contilab.report.published.table import Band

    grounds: dict[str, list[Verdict]] = {}
    for verdict in found:
        if isinstance(verdict.reference, Band):
            grounds.setdefault(verdict.reference.basis, []).append(verdict)
    yield from [RULE] if len(found) > sum(map(len, grounds.values())) else []
    yield from [BAND] if grounds else []
    for basis, verdicts in grounds.items():
        yield folded(f"  {_short(verdicts)}: {basis}", WIDTH)
    yield ""


def without(found: Sequence["Verdict"]) -> Iterator[str]:
    """Yield what neither passes nor fails, by the reason, in lines."""
    reasons: dict[str, list[Verdict]] = {}
    for verdict in found:
        if verdict.reason:
            reasons.setdefault(verdict.reason, []).append(verdict)
    for reason, verdicts in reasons.items():
        yield f"No verdict, as {reason}:"
        yield folded(f"  {_short(verdicts)}", WIDTH)
    yield from [""] if reasons else []


def lost(study: str, found: Sequence["Verdict"]) -> Iterator[str]:
    """Yield a line if seeds of what was compared have no accuracy."""
    cells = {verdict.ours.name: verdict.ours for verdict in found}.values()
    missing = sum(ours.planned - len(ours.values) for ours in cells)
    if missing:
        yield f"{missing} of {sum(ours.planned for ours in cells)} runs have no accuracy: contilab status {study} says why\n"


def _check(study: str, table: "Table", found: Sequence["Verdict"]) -> None:
    """Raise UsageError where there is nothing to compare."""
    if not found:
        problem = f'"{table.name}" has no cell of the methods and scenarios of "{study}"'
        raise UsageError("--against", problem, hint="contilab verify --help names the tables")
    if not any(verdict.ours.values for verdict in found):
        problem = f'no run that "{table.name}" has a cell for has an accuracy'
        raise UsageError(f"study {study}", problem, hint=f"contilab status {study} says what became of them")


def _listed(head: str, differences: Sequence[str]) -> Iterator[str]:
    yield f"{head}:"
    yield from (f"  {difference}" for difference in differences)


def _short(verdicts: Iterable["Verdict"]) -> str:
    """Return which rows of the table *verdicts* are."""
    found = (verdict.reference for verdict in verdicts)
    return ", ".join(dict.fromkeys(f"{one.method} {one.scenario} {describe_number(one).split(' ±')[0]}" for one in found))


def _head(table: "Table") -> list[str]:
    return [table.said if word == "published" else word for word in HEAD]


def _row(verdict: "Verdict") -> list[str]:
    reference, ours = verdict.reference, verdict.ours
    row = [reference.method, reference.scenario, describe_number(reference)]
    if not ours.values:
        return [*row, "-", _seeds(ours), "-", "-", WORDS[None]]
    return [*row, _mean(ours), _seeds(ours), *_distance(reference, ours), WORDS[verdict.passed]]


def _seeds(ours: "Ours") -> str:
    """Return how many seeds have an accuracy, and of how many if some have none."""
    known = len(ours.values)
    return str(known) if known == ours.planned else f"{known} of {ours.planned}"


def _mean(ours: "Ours") -> str:
    return f"{ours.mean:.2f}" + (f" ± {ours.sem:.2f}" if len(ours.values) > 1 else "")


def _distance(reference: "Cell | Band", ours: "Ours") -> tuple[str, str]:
    from contilab.report.published.table import Band
    from contilab.report.published.verdict import SIGMAS, tolerance

    if isinstance(reference, Band):
        outside = max(reference.low - ours.mean, ours.mean - reference.high, 0.0)
        return f"{outside:.2f}", f"{SIGMAS * ours.sem:.2f}" if len(ours.values) > 1 else "-"
    allowed = f"{tolerance(reference, ours):.2f}" if len(ours.values) > 1 else "-"
    return f"{ours.mean - reference.mean:+.2f}", allowed


def _name(verdict: "Verdict") -> str:
    """Return what was compared: the cell of the table, and which of the study stands beside it."""
    reference = verdict.reference
    return f"{reference.method}, {reference.scenario}, {describe_number(reference)} ({verdict.ours.name})"


def _count(found: Sequence["Verdict"]) -> str:
    from contilab.report.published.verdict import is_allowed

    passed, failed, undecided = (sum(verdict.passed is way for verdict in found) for way in (True, False, None))
    unjudged = [verdict for verdict in found if verdict.passed is None and verdict.ours.values]
    outside = sum(not is_allowed(verdict.reference, verdict.ours) for verdict in unjudged)
    told = f"{passed} pass, {failed} fail, {undecided} give no verdict"
    return f"{told}; {outside} of these are farther off than is allowed" if outside else told
