"""The menu of the catalog, as manifests are checked against it."""

from functools import cache

from contilab import catalog
from contilab.manifest.menu import Menu


@cache
def catalog_menu() -> Menu:
    """Return every name of the catalog per kind, sorted, and where each is looked up."""
    return Menu({kind: tuple(sorted(names)) for kind, names in catalog.KINDS.items()}, catalog.entry)
