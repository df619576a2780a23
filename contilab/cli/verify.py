"""`contilab verify`: a study beside published or recorded numbers, protocol matched setting by setting."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from contilab.cli.columns import columns
from contilab.cli.options import DEFAULT_STORE, StoreOption

if TYPE_CHECKING:
    from contilab.report.published.table import Band, Cell, Table
    from contilab.report.published.verdict import Ours, Verdict

TABLES = ("hsu2018", "smnist_1epoch", "vandeven2018", "vandeven2022")  # as written there, which loads numpy
RECORDED = ("hsu2018_short", "smnist_1epoch_short", "vandeven_short")  # our own, of the manifests of these names
HEAD = ["method", "scenario", "published", "ours", "seeds", "difference", "allowed", "verdict"]
WORDS = {True: "pass", False: "FAIL", None: "-"}


def verify(
    study: Annotated[str, typer.Argument(help="The study to compare.")],
    *,
    against: Annotated[
        str,
        typer.Option(
            metavar="TABLE", help=f"Published numbers: {', '.join(TABLES)}. Our own, recorded: {', '.join(RECORDED)}."
        ),
    ],
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Compare a study with published numbers, or a short one with our recorded ones; exit code 3 if a verdict is a failure."""
    from contilab.report.published.cells import cells_of
    from contilab.report.published.table import read_table
    from contilab.report.published.verdict import verdicts
    from contilab.store.store import open_store

    table, opened = read_table(against), open_store(store)
    found = verdicts(table, cells_of(opened, opened.study(study)))
    typer.echo(f"{table.title}\n{_about(table)}\n")
    typer.echo(columns([_head(table), *(_row(verdict) for verdict in found)], right=range(3, 7)))
    for verdict in found:
        _explain(verdict)
    failed = sum(verdict.passed is False for verdict in found)
    typer.echo(f"\n{sum(verdict.passed is True for verdict in found)} pass, {failed} fail, {_undecided(found)} give no verdict")
    if failed:
        raise typer.Exit(3)


def _head(table: "Table") -> list[str]:
    return [table.said if word == "published" else word for word in HEAD]


def _about(table: "Table") -> str:
    status = f"recorded with {table.recorded_with}" if table.recorded_with else table.status
    return f"{status}, {table.seeds} seeds; accuracies in %, mean ± standard error of the mean"


def _row(verdict: "Verdict") -> list[str]:
    reference, ours = verdict.reference, verdict.ours
    row = [reference.method, reference.scenario, _published(reference)]
    if ours is None or not ours.values:
        return [*row, "-", "0", "-", "-", WORDS[None]]
    return [*row, _mean(ours), str(len(ours.values)), *_distance(reference, ours), WORDS[verdict.passed]]


def _published(reference: "Cell | Band") -> str:
    from contilab.report.published.table import Band

    if isinstance(reference, Band):
        return f"{reference.low:g} to {reference.high:g}"
    return f"{reference.mean:.2f}" + ("" if reference.sem is None else f" ± {reference.sem:.2f}")


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


def _explain(verdict: "Verdict") -> None:
    """Tell why there is no verdict, and every difference of the protocol."""
    if not verdict.reason and not verdict.differences:
        return
    reference = verdict.reference
    name = verdict.ours.name if verdict.ours else ""
    typer.echo(f"\n{reference.method}, {reference.scenario}, {_published(reference)}: {verdict.reason} ({name})")
    for difference in verdict.differences:
        typer.echo(f"  {difference}")


def _undecided(found: Sequence["Verdict"]) -> int:
    return sum(verdict.passed is None for verdict in found)
