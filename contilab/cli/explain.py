"""An entry of the menu in words: its rule, its settings with default and range, its paper."""

import textwrap
from dataclasses import MISSING

from contilab.cli.columns import columns
from contilab.manifest.keys import Key, settings_keys
from contilab.manifest.wording import accepts, shown
from contilab.spec.entry import Entry
from contilab.spec.fields import per_member

WIDTH = 100


def explain(kind: str, name: str, entry: Entry) -> str:
    """Return what *entry* is as text; its settings are worded as the faults of a manifest word them."""
    parts = [f"{name} ({kind})", textwrap.fill(" ".join(entry.summary.split()), WIDTH), _settings(kind, entry.settings)]
    if entry.uses_memory:
        parts.append("it replays from memory: see the keys memory.total, memory.per_class, memory.batch, memory.insert")
    if entry.paper:
        parts.append(f"paper: {entry.paper}")
    return "\n\n".join(part for part in parts if part)


def _settings(kind: str, settings: type) -> str:
    varying = per_member(settings)
    rows = [
        (f"  {kind}.{name}", _default(key), accepts(key.hint), _meaning(key, may_differ=name in varying))
        for name, key in settings_keys(settings).items()
    ]
    return columns([("  setting", "default", "accepted", "meaning"), *rows]) if rows else ""


def _default(key: Key) -> str:
    if key.default is MISSING:
        return "(needed)"
    return "(unset)" if key.default is None else shown(list(key.default) if isinstance(key.default, tuple) else key.default)


def _meaning(key: Key, *, may_differ: bool) -> str:
    return f"{key.doc}; may differ between members" if may_differ else key.doc
