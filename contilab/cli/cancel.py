"""`contilab cancel`: stop a study or a group, whoever works on it."""

from typing import Annotated

import typer

from contilab.cli.options import DEFAULT_STORE, StoreOption
from contilab.store.cancel import cancel as stop
from contilab.store.layout import short
from contilab.store.probe import check_writable
from contilab.store.store import open_store


def cancel(
    what: Annotated[str, typer.Argument(metavar="STUDY|GROUP", help="What to stop.", show_default=False)],
    *,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Stop a study or a group: runners keep a checkpoint and let go of it at their next beat; results stay."""
    opened = open_store(store)
    check_writable(store)
    done = stop(opened, what)
    for gid in done.groups:
        typer.echo(f"cancelled: group {short(gid)}")
    for gid, names in done.needed.items():
        typer.echo(
            f"left alone: group {short(gid)}, which {', '.join(names)} needs too; name the group to stop it all the same"
        )
    for gid in done.already:
        typer.echo(f"cancelled before: group {short(gid)}")
    if done.groups:
        typer.echo(f"runners stop within {opened.beat_s:g} s; contilab retry {what} takes it back")
    elif not done.needed and not done.already:
        typer.echo("nothing to cancel: every run has a result")
