"""The settings of a manifest: every one that a shared table, the name of a plugin or a plugin of the menu has."""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from contilab import catalog
from contilab.manifest.keys import PLUGINS, Key, named_keys, settings_keys, shared_keys
from contilab.plan.menu import catalog_menu
from contilab.spec.fields import per_member


class Setting(NamedTuple):
    """One setting: its dotted *name*, and the plugin that has it, or "" where every run has it.

    *key*: its type, default and meaning. *may_differ*: whether runs that are trained together may have other values of it.
    """

    name: str
    owner: str
    key: Key
    may_differ: bool = False

    @property
    def table(self) -> str:
        """The table of the manifest that it stands in."""
        return self.name.partition(".")[0]

    @property
    def short(self) -> str:
        """Its name within the table."""
        return self.name.partition(".")[2]


@cache
def every_setting() -> tuple[Setting, ...]:
    """Return every setting, the shared ones first; this loads every plugin."""
    shared = {**named_keys(catalog_menu()), **shared_keys()}
    return (*(Setting(name, "", key) for name, key in shared.items()), *_own())


def _own() -> Iterator[Setting]:
    for kind in PLUGINS:
        for owner in catalog.KINDS[kind]:
            settings = catalog.entry(kind, owner).settings
            for short, key in settings_keys(settings).items():
                yield Setting(f"{kind}.{short}", owner, key, may_differ=short in per_member(settings))
