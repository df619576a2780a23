"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from contilab.disk.nearest import nearest_there
from contilab.errors import UsageError


def check_no_file(place: str, folder: Path, hint: str) -> None:
    """Raise UsageError if a file is where *folder*, or a folder that it is to lie in, should be. *place*: who named it."""
    there = nearest_there(folder)
    if not there.is_dir():
        raise UsageError(place, f'"{there}" is no folder', hint=hint)


def store_folder(folder: Path | None) -> Path | None:
    """Return *folder*; UsageError if a file is in its place. typer calls this with the value of --store."""
    if folder is not None:
        check_no_file("--store", folder, "a store is a folder: name another one with --store DIR or CONTILAB_STORE")
    return folder


StoreOption = Annotated[
    Path,
    typer.Option(
        "--store",
        envvar="CONTILAB_STORE",
        metavar="DIR",
        help="Where plans and results are kept.",
        show_default=True,
        callback=store_folder,
        readable=False,  # not looked at by typer: a store without rights is a fault of the environment, not of the words
    ),
]
DEFAULT_STORE = Path("store")


def check_folder(option: str, file: Path | None) -> None:
    """Raise UsageError if the folder into which *option* puts *file* is not there: told before the work, not after it."""
    if file is not None and not file.absolute().parent.is_dir():
        raise UsageError(option, f'there is no folder "{file.absolute().parent}"', hint="make it, or name another file")
