"""Options that several commands share."""

import os
from pathlib import Path
from typing import Annotated

import typer

from contilab.errors import UsageError


def check_way(option: str, folder: Path, hint: str) -> Path:
    """Return the nearest to *folder* of it and its parents that is there; UsageError if that is none: *option* named a file."""
    there = next(one for one in (folder, *folder.absolute().parents) if os.path.lexists(one))
    if not os.path.isdir(there):  # noqa: PTH112  Path.is_dir raises where a folder on the way may not be searched
        raise UsageError(option, f'"{there}" is no folder', hint=hint)
    return there


def store_folder(folder: Path | None) -> Path | None:
    """Return *folder*, which a store can be in as far as its name tells: what typer calls for the option --store."""
    if folder is not None:
        check_way("--store", Path(folder), "a store is a folder: name another one with --store DIR or CONTILAB_STORE")
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
