"""`contilab bundle` and `contilab verify-bundle`: a study as one archive for a paper, and its check without a store."""

from pathlib import Path
from typing import Annotated

import typer

from contilab.cli.options import DEFAULT_STORE, StoreOption


def bundle(
    study: Annotated[str, typer.Argument(help="The study to pack.")],
    *,
    store: StoreOption = DEFAULT_STORE,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The archive; default: STUDY.bundle.zip here.")] = None,
) -> None:
    """Pack a study for a paper: manifest, settings, results, machines, report."""
    from contilab.report.bundle import write_bundle
    from contilab.report.numbers import number
    from contilab.store.store import open_store

    made = write_bundle(open_store(store), study, out or Path(f"{study}.bundle.zip"))
    typer.echo(f"bundle: {made.path}")
    typer.echo(f"sha256: {made.sha256}")
    typer.echo(f"{made.results} results, {number(made.size, 'bytes')}", err=True)
    if made.left_out:
        typer.echo(f"{len(made.left_out)} runs have no usable result: {'; '.join(made.left_out)}", err=True)


def verify_bundle(file: Annotated[Path, typer.Argument(help="The archive to check.")]) -> None:
    """Check the digests of a bundle and compute its tables again, offline; exit code 3 if anything differs."""
    from contilab.report.bundle_check import verify_bundle as verify

    found = verify(file)
    for fault in found.faults:
        typer.echo(f"fault: {fault}")
    if found.not_compared:
        typer.echo(f"not compared, since metrics have another version here: {', '.join(found.not_compared)}")
    if found.faults:
        raise typer.Exit(3)
    typer.echo(f"{found.study}: {found.files} files are what was packed, by contilab {found.made_by}")
    typer.echo(f"computed again and equal: {', '.join(found.tables)}")
