"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from contilab.errors import UsageError

StoreOption = Annotated[
    Path,
    typer.Option(
        "--store",
        envvar="CONTILAB_STORE",
        metavar="DIR",
        help="Where plans and results are kept.",
        show_default=True,
        readable=False,  # not looked at by typer: a store without rights is a fault of the environment, not of the words
    ),
]
DEFAULT_STORE = Path("store")


def check_folder(option: str, file: Path | None) -> None:
    """Raise UsageError if the folder into which *option* puts *file* is not there: told before the work, not after it."""
    if file is not None and not file.absolute().parent.is_dir():
        raise UsageError(option, f'there is no folder "{file.absolute().parent}"', hint="make it, or name another file")
