"""An entry of the menu in words: its rule, its settings with default and range, its paper."""

import textwrap
from dataclasses import MISSING, Field, fields
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Len, Lt

from contilab.cli.columns import columns
from contilab.spec.entry import Entry
from contilab.spec.fields import Doc, PerMember, markers

WIDTH = 100


def explain(kind: str, name: str, entry: Entry) -> str:
    """Return what *entry* is as text."""
    parts = [f"{name} ({kind})", textwrap.fill(" ".join(entry.summary.split()), WIDTH), _settings(kind, entry.settings)]
    if entry.uses_memory:
        parts.append("it replays from memory: see the keys memory.total, memory.per_class, memory.batch, memory.insert")
    if entry.paper:
        parts.append(f"paper: {entry.paper}")
    return "\n\n".join(part for part in parts if part)


def accepted(hint: Any) -> str:
    """Return which values the annotation *hint* accepts, such as `float, above 0` or `"seen" or "all"`."""
    origin = get_origin(hint)
    if origin is Annotated:
        inner, *marks = get_args(hint)
        bounds = [text for mark in marks if (text := _bound(mark))]
        return ", ".join([accepted(inner), *bounds])
    if origin is Literal:
        return " or ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in get_args(hint))
    if origin in (Union, UnionType):
        return " or ".join(accepted(part) for part in get_args(hint) if part is not NoneType)
    if origin in (list, tuple):
        return f"list of {accepted(get_args(hint)[0])}"
    return str(getattr(hint, "__name__", hint))


def _settings(kind: str, settings: type) -> str:
    hints = get_type_hints(settings, include_extras=True)
    rows = [
        (f"  {kind}.{field.name}", _default(field), accepted(hints[field.name]), _meaning(settings, field.name))
        for field in fields(settings)
    ]
    return columns([("  setting", "default", "accepted", "meaning"), *rows]) if rows else ""


def _default(field: Field[Any]) -> str:
    value = field.default_factory() if field.default_factory is not MISSING else field.default
    if value is MISSING:
        return "(needed)"
    if isinstance(value, tuple):
        value = list(value)
    return "(unset)" if value is None else f'"{value}"' if isinstance(value, str) else str(value)


def _meaning(settings: type, name: str) -> str:
    marks = markers(settings, name)
    texts = [mark.text for mark in marks if isinstance(mark, Doc)]
    return "; ".join([*texts, *("may differ between members" for mark in marks if isinstance(mark, PerMember))])


def _bound(mark: Any) -> str:
    match mark:
        case Ge():
            return f"at least {mark.ge}"
        case Gt():
            return f"above {mark.gt}"
        case Le():
            return f"at most {mark.le}"
        case Lt():
            return f"below {mark.lt}"
        case Len():
            return f"at least {mark.min_length} long"
    return ""
