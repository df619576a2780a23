"""`contilab prune`: remove what earlier plans of a study left behind and no plan wants any more."""

from typing import Annotated

import typer

from contilab.cli.options import DEFAULT_STORE, StoreOption
from contilab.store.probe import check_writable
from contilab.store.prune import Pruned
from contilab.store.prune import prune as remove
from contilab.store.store import open_store


def prune(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Whose earlier plans.", show_default=False)],
    *,
    store: StoreOption = DEFAULT_STORE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how much, and remove nothing.")] = False,
) -> None:
    """Remove results, groups and work of runs that no current plan names, after saying how much."""
    opened = open_store(store)
    if not dry_run:
        check_writable(store)
    typer.echo(f"not in any current plan: {_amount(remove(opened, study, is_dry_run=True))}")
    if not dry_run:
        typer.echo(f"removed: {_amount(remove(opened, study, is_dry_run=False))}")


def _amount(pruned: Pruned) -> str:
    return f"{len(pruned.results)} results, {len(pruned.groups)} groups, {pruned.bytes / 2**20:,.1f} MiB"
