"""`key=value` on the command line: any key of the manifest (`matrix.seed=[0,1]`) or of the run (`train.epochs=1`).

The value is TOML; a bare word is text.
"""

import re
import tomllib
from collections.abc import Sequence
from typing import Any, NamedTuple

from contilab.errors import Fault
from contilab.manifest.document import TABLES, TABLES_BY_NAME, TOP
from contilab.manifest.keys import RIVALS, SECTIONS
from contilab.manifest.read import is_deep
from contilab.manifest.wording import nearest, shown

PLACE = "command line"
AXES = {"preset": "preset", "method": "method", "seed": "seed", "method.name": "method"}
TABLES_OF = {"method": ("method_overrides", "method_sweep"), "preset": ("preset_overrides",)}  # by name of the axis
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/+-]*")
_FORM = "write key=value, as train.epochs=1"


class CommandLine(NamedTuple):
    """What the command line says: keys of the manifest by path, settings of every run by dotted key, and its faults."""

    document: dict[tuple[str, ...], Any]
    settings: dict[str, Any]
    faults: list[Fault]

    def applied(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return the flat *document* with the keys of the manifest that the command line replaces.

        Methods and presets that this leaves out take the tables of the manifest that are theirs with them.
        """
        changed = {key: _copied(value) for key, value in document.items()}
        for path, value in self.document.items():
            table = changed
            for part in path[:-1]:
                if not isinstance(table.get(part), dict):
                    table[part] = {}
                table = table[part]
            table.pop(RIVALS.get(path[-1], ""), None)
            table[path[-1]] = value
        _leave_out(changed, {axis: _left_out(document, changed, axis) for axis in TABLES_OF})
        return changed


def read_values(values: Sequence[str]) -> CommandLine:
    """Return what the arguments *values* say."""
    line = CommandLine({}, {}, [])
    for argument in values:
        key, equals, text = argument.partition("=")
        key = key.strip()
        if not (equals and key):
            line.faults.append(Fault(PLACE, f"{shown(argument)} is no key=value", _FORM))
            continue
        try:
            value = read_value(text)
        except ValueError as error:
            line.faults.append(
                Fault(f"{PLACE}: {key}", str(error), 'the value is TOML: 0.1, true, [0, 1], "text", or a bare word')
            )
            continue
        _put(line, key, value)
    return line


def read_value(text: str) -> Any:
    """Return the value that *text* means; ValueError saying why it means none.

    >>> read_value("[0, 1]"), read_value("smoke"), read_value("1e-3")
    ([0, 1], 'smoke', 0.001)
    """
    text = text.strip()
    try:
        document = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError) as error:  # TOML errors are ValueErrors
        if _WORD.fullmatch(text):
            return text
        raise ValueError(f"`{text[:60]}` is no TOML value") from error
    if set(document) != {"value"}:
        raise ValueError(f"{shown(text)} is more than one value")
    if is_deep(document):
        raise ValueError("the value is nested too deeply")
    return document["value"]


def _put(line: CommandLine, key: str, value: Any) -> None:
    path = _path(key)
    if key in AXES:
        problem = f"{key} is an axis of the matrix"
        line.faults.append(Fault(f"{PLACE}: {key}", problem, f"replace the axis: matrix.{AXES[key]}=[...]"))
    elif path is None:
        hint = (
            f"{nearest(key, TOP)}it takes the keys of the manifest ({', '.join(TOP)}) and of the run ({'., '.join(SECTIONS)}.)"
        )
        line.faults.append(Fault(f"{PLACE}: {key}", "unknown key", hint))
    elif path in line.document or key in line.settings:
        line.faults.append(Fault(f"{PLACE}: {key}", "the key is given twice", "keep one of them"))
    elif path:
        line.document[path] = value
    else:
        line.settings[key] = value


def _path(key: str) -> tuple[str, ...] | None:
    """Return the path of *key* in the flat document, () for a setting of the run, None if it is neither."""
    top, _, rest = key.partition(".")
    if top in TABLES and rest:
        return top, "method" if (top, rest) == ("matrix", "method.name") else rest
    if top in TABLES_BY_NAME and rest:
        name, _, inner = rest.partition(".")
        return (top, name, inner) if inner else (top, name)
    if key in TOP:
        return (key,)
    return () if top in SECTIONS and rest else None


def _left_out(before: dict[str, Any], after: dict[str, Any], axis: str) -> set[str]:
    """Return the names that stand in the matrix *before* and not *after*; others stay, as they may be misspelt."""
    first, last = (document.get("matrix") for document in (before, after))
    names = [table.get(axis) if isinstance(table, dict) else None for table in (first, last)]
    old, new = ([name for name in found if isinstance(name, str)] if isinstance(found, list) else [] for found in names)
    return set(old) - set(new)


def _leave_out(document: dict[str, Any], names: dict[str, set[str]]) -> None:
    for axis, tables in TABLES_OF.items():
        for table in tables:
            if isinstance(document.get(table), dict):
                document[table] = {name: inner for name, inner in document[table].items() if name not in names[axis]}
    of_methods = document.get("method_overrides")
    for inner in of_methods.values() if isinstance(of_methods, dict) else ():
        for name in names["preset"] if isinstance(inner, dict) else ():
            inner.pop(name, None)


def _copied(value: Any) -> Any:
    return {key: _copied(inner) for key, inner in value.items()} if isinstance(value, dict) else value
