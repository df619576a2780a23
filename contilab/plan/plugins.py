"""Plugins as a study is planned with them: built from name and settings, to look at their shapes and choices."""

from typing import Any

from contilab.manifest.menu import Menu
from contilab.spec.sections import Plugin


def built(menu: Menu, kind: str, plugin: Plugin, *further: Any) -> Any:
    """Return what the *plugin* of *kind* stands for; *further*: what it is made of besides its settings, see `Entry.make`."""
    entry = menu.entry(kind, plugin.name)
    return entry.make(entry.settings(**plugin.settings), *further)
