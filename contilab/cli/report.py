"""`contilab report`: tables, figures and one HTML file of a study."""

from pathlib import Path
from typing import Annotated

import typer

from contilab.cli.options import DEFAULT_STORE, StoreOption


def report(
    study: Annotated[str, typer.Argument(help="The study to report on.")],
    *,
    store: StoreOption = DEFAULT_STORE,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to; default: reports/STUDY in the store.")] = None,
) -> None:
    """Write tables, figures and one HTML file of a study."""
    from contilab.report.write import write_report

    written = write_report(store, study, out)
    typer.echo(f"report: {written.path}")
    if written.left_out:
        typer.echo(written.left_out, err=True)
    if written.missing:
        typer.echo(f"{len(written.missing)} runs have no result and are named in it: contilab status tells why", err=True)
