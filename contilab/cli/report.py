"""`contilab report`: tables, figures and one HTML file of a study."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from contilab.cli.options import DEFAULT_STORE, StoreOption


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

    is_latex = format_ is Format.LATEX
    written = write_report(
        store, study, out, baseline=baseline, has_all_pairs=pairs is Pairs.ALL, compare=compare, is_latex=is_latex
    )
    typer.echo(f"report: {written.path}")
    if written.left_out:
        typer.echo(written.left_out, err=True)
    if written.missing:
        typer.echo(f"{len(written.missing)} runs have no result and are named in it: contilab status tells why", err=True)
