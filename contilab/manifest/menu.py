"""The menu as the manifest package gets it: the names of each kind, and what a name stands for."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from contilab.spec.entry import Entry


class Menu(NamedTuple):
    """What manifests are checked against. *names* holds the sorted names per kind: benchmark, model, optim, method."""

    names: Mapping[str, tuple[str, ...]]
    entry: Callable[[str, str], Entry]  # kind, name -> entry; KeyError if the menu has no such name
