"""The menu with models of a user's own that a manifest names: beside it, in the current folder or on PYTHONPATH."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from contilab.errors import Fault, InputError, ManifestError
from contilab.manifest.commandline import PLACE, read_values
from contilab.manifest.document import flat_document
from contilab.manifest.menu import Menu
from contilab.manifest.read import parse
from contilab.models.own import is_own, own_model
from contilab.spec.entry import Entry

KEY = "model.name"


def with_own_models(menu: Menu, text: str, values: Sequence[str], place: str) -> Menu:
    """Return *menu* and every model `module:function` that the manifest *text* at *place* and the command line's *values* name.

    Their files are read and run anew. Raises ManifestError with every one that is not there, does not load or is no model.
    """
    line = read_values(values)
    document = {**line.applied(flat_document(parse(text, place))), PLACE: line.settings}
    own: dict[str, Entry] = {}
    faults: list[Fault] = []
    for name in dict.fromkeys(_named(document)):
        try:
            own[name] = own_model(name, (Path(place).parent, Path()))
        except InputError as error:
            faults += [fault._replace(place=f"{place}: {fault.place}") for fault in error.faults]
    if faults:
        raise ManifestError(faults)

    def entry(kind: str, name: str) -> Entry:
        return own[name] if kind == "model" and name in own else menu.entry(kind, name)

    return Menu({**menu.names, "model": (*menu.names["model"], *own)}, entry)


def _named(tree: Any, key: str = "") -> Iterator[str]:
    """Return each text under the key of a model's name, alone or in a list, that has the form of a user's own."""
    if isinstance(tree, dict):
        for inner, value in tree.items():
            yield from _named(value, inner)
    elif key == KEY:
        yield from (name for name in (tree if isinstance(tree, list) else [tree]) if isinstance(name, str) and is_own(name))
