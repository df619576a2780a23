"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

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
