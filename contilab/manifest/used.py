"""Which plugins a manifest uses: a setting that none of them has is a fault."""

from collections.abc import Iterator, Mapping
from typing import Any

from contilab.manifest.commandline import PLACE
from contilab.manifest.document import named_tables
from contilab.manifest.keys import PLUGINS, plugin_keys
from contilab.manifest.menu import Menu
from contilab.manifest.profile import Profile


def used_names(document: Mapping[str, Any], menu: Menu, profile: Profile) -> dict[str, tuple[str, ...]]:
    """Return the names per kind that *document* uses; all of the menu if it names one that is not there.

    A misspelt name is one fault: it must not make faults of the settings that were meant for it.
    """
    return {kind: _known(list(_named(document, profile, kind)), menu.names[kind]) for kind in PLUGINS}


def owners_of(menu: Menu, used: Mapping[str, tuple[str, ...]]) -> dict[str, list[str]]:
    """Return, per dotted key that only unused plugins know, the names of these."""
    owners: dict[str, list[str]] = {}
    for kind in PLUGINS:
        known = {key for name in used[kind] for key in plugin_keys(menu, kind, name)}
        for name in menu.names[kind]:
            for key in plugin_keys(menu, kind, name).keys() - known:
                owners.setdefault(key, []).append(name)
    return owners


def _known(found: list[Any], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name in found) if found and all(name in names for name in found) else names


def _named(document: Mapping[str, Any], profile: Profile, kind: str) -> Iterator[Any]:
    matrix = _table(document.get("matrix"))
    if kind == "method":
        yield from _listed(matrix.get("method"))
        return
    key = f"{kind}.name"
    presets = [name for name in _listed(matrix.get("preset")) if isinstance(name, str)]
    known = [profile.presets.get(name, {}) for name in presets]
    own = [_table(_table(document.get("preset_overrides")).get(name)) for name in presets]
    own += [_table(table) for name, table in named_tables(dict(document)).items() if name.startswith("method_overrides.")]
    for settings in (profile.defaults, *known, _table(document.get("overrides")), *own, _table(document.get(PLACE))):
        yield from [settings[key]] if key in settings else []
    sweeps = _table(document.get("method_sweep")).values()
    for settings in (matrix, _table(document.get("sweep")), *(_table(table) for table in sweeps)):
        yield from _listed(settings.get(key))


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
