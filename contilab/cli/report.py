"""`contilab report`: tables, figures and one HTML file of a study."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contilab.cli.options import DEFAULT_STORE, StoreOption, check_no_file
from contilab.errors import UsageError

if TYPE_CHECKING:
    from contilab.store.store import Store


class Pairs(StrEnum):
    """Which methods are compared."""

    BASELINE = "baseline"
    ALL = "all"


class Format(StrEnum):
    """What is written besides the tables for programs and report.md."""

    HTML = "html"
    LATEX = "latex"


def report(
    study: Annotated[str, typer.Argument(help="The study to report on.")],
    *,
    store: StoreOption = DEFAULT_STORE,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to; default: reports/STUDY in the store.")] = None,
    baseline: Annotated[
        str, typer.Option(metavar="METHOD", help="What methods are compared with; default: naive, else the first.")
    ] = "",
    pairs: Annotated[
        Pairs, typer.Option(help="all: each method is compared with each other one, and p corrected for all pairs.")
    ] = Pairs.BASELINE,
    compare: Annotated[str, typer.Option(metavar="STUDY", help="Set each cell beside the same cell of another study.")] = "",
    format_: Annotated[Format, typer.Option("--format", help="latex: tables.tex for papers, besides the page.")] = Format.HTML,
) -> None:
    """Write tables, figures and one HTML file of a study."""
    from contilab.report.write import write_report
    from contilab.store.store import open_store

    opened = open_store(store)
    _check_baseline(opened, study, baseline, pairs)
    _check_place(opened, study, out)
    is_latex = format_ is Format.LATEX
    written = write_report(
        store, study, out, baseline=baseline, has_all_pairs=pairs is Pairs.ALL, compare=compare, is_latex=is_latex
    )
    typer.echo(f"report: {written.path}")
    if written.left_out:
        typer.echo(written.left_out, err=True)
    if written.missing:
        typer.echo(f"{len(written.missing)} runs have no result and are named in it: contilab status tells why", err=True)


def _check_baseline(store: "Store", study: str, baseline: str, pairs: Pairs) -> None:
    """Raise UsageError if nothing can be compared with *baseline*, whatever it is."""
    if baseline and pairs is Pairs.ALL:
        problem = "with --pairs all each method is compared with each other one, and none is the baseline"
        raise UsageError("--baseline", problem, hint="leave out one of the two options")
    if baseline and not any(store.has_result(rid) for rid in store.study(study).rids):
        problem = f'no run of "{study}" has a result yet, so nothing can be compared with "{baseline}"'
        hint = "contilab run trains them; without --baseline the report is written all the same"
        raise UsageError("--baseline", problem, hint=hint)


def _check_place(store: "Store", study: str, out: Path | None) -> None:
    """Raise UsageError if a file lies where the report goes, and StoreError if nothing can be written: before the work."""
    from contilab.store.probe import check_writable

    folder = out or store.reports_dir(store.study(study).name)
    check_no_file("--out" if out else "report", folder, "a report is a folder: name another one with --out DIR")
    check_writable(folder, "report", hint="make it writable, or name another folder with --out DIR")
