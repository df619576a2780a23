"""A study from the text of its manifest: resolved and expanded, with the models of one's own that it names."""

from collections.abc import Sequence

from contilab.manifest.menu import Menu
from contilab.manifest.resolve import resolve
from contilab.plan.expand import Expanded, expand
from contilab.plan.menu import catalog_menu
from contilab.plan.own_models import with_own_models


def study(text: str, values: Sequence[str] = (), *, place: str = "manifest", menu: Menu | None = None) -> tuple[Expanded, Menu]:
    """Return what the manifest *text* with the command line's *values* asks for, and the menu that it was checked against.

    *place*: the manifest's name in messages. *menu*: that of the catalog unless given. Raises ManifestError with every fault.
    """
    menu = with_own_models(menu or catalog_menu(), text, values, place)
    return expand(resolve(text, place=place, values=values, menu=menu), menu, place), menu
