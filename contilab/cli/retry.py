"""`contilab retry`: release what is in quarantine or cancelled, and move unusable results aside."""

from typing import Annotated

import typer

from contilab.cli.options import DEFAULT_STORE, StoreOption
from contilab.store.layout import short
from contilab.store.probe import check_writable
from contilab.store.retry import retry as release
from contilab.store.store import open_store


def retry(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[STUDY|GROUP|RUN]", help="What to release; without it everything in quarantine.", show_default=False
        ),
    ] = None,
    *,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Release groups in quarantine, cancelled ones too where they are named, and move unusable results aside."""
    opened = open_store(store)
    check_writable(store)
    done = release(opened, what)
    for gid in done.groups:
        typer.echo(f"released: group {short(gid)}")
    for rid in done.results:
        typer.echo(f"moved aside: the unusable result of run {short(rid)}")
    typer.echo("contilab run goes on with it" if done.groups or done.results else "nothing to retry")
