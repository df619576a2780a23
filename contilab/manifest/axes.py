"""The axes of a study: what varies, each key once, and the combinations of their values."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from contilab.errors import Fault
from contilab.manifest.commandline import PLACE
from contilab.manifest.document import TABLES_BY_NAME, named_tables
from contilab.manifest.keys import RIVALS

MATRIX = ("preset", "method", "seed")


class Axis(NamedTuple):
    """One key that varies, the table that says so, and its values."""

    table: str
    key: str
    values: Sequence[Any]


def axes(document: Mapping[str, Any], method: str) -> list[Axis]:
    """Return the axes of *method* besides preset, method and seed, in the order in which their values are varied."""
    by_method = _table(_table(document, "method_sweep"), method)
    tables = {"matrix": _table(document, "matrix"), "sweep": _table(document, "sweep"), f"method_sweep.{method}": by_method}
    return [Axis(name, key, values) for name, table in tables.items() for key, values in table.items() if key not in MATRIX]


def combinations(varied: Sequence[Axis]) -> Iterator[dict[str, dict[str, Any]]]:
    """Yield the settings of each combination, by table; one empty combination if nothing varies."""
    for values in product(*(axis.values for axis in varied)):
        settings: dict[str, dict[str, Any]] = {}
        for axis, value in zip(varied, values, strict=True):
            settings.setdefault(axis.table, {})[axis.key] = value
        yield settings


def clashes(document: Mapping[str, Any], command_line: Mapping[str, Any], place: str) -> list[Fault]:
    """Return the faults of keys that are set twice where only one can hold: two axes, rivals, an axis and the command line."""
    faults = list(_rivals(document, place))
    for method in _table(document, "method_sweep") or [""]:
        first: dict[str, Axis] = {}
        for axis in axes(document, str(method)):
            slot = min(axis.key, RIVALS.get(axis.key, axis.key))
            other = first.setdefault(slot, axis)
            if other.table != axis.table:  # rivals of one table are told by _rivals
                problem = f"the key is an axis twice: {other.table}.{other.key} varies it too"
                faults.append(Fault(f"{place}: {axis.table}.{axis.key}", problem, "keep one of the two"))
            for key in (axis.key, RIVALS.get(axis.key)):
                if key in command_line:
                    hint = f"replace the axis: {axis.table}.{axis.key}=[...]"
                    faults.append(Fault(f"{PLACE}: {key}", f"{axis.key} is an axis of {axis.table}", hint))
    return list(dict.fromkeys(faults))


def _rivals(document: Mapping[str, Any], place: str) -> Iterator[Fault]:
    tables = {name: table for name, table in document.items() if name not in TABLES_BY_NAME} | named_tables(dict(document))
    for name, table in tables.items():
        for key in table if isinstance(table, dict) else ():
            if RIVALS.get(key, "") > key and RIVALS[key] in table:
                where = f"{PLACE}: {key}" if name == PLACE else f"{place}: {name}.{key}"
                yield Fault(where, f"{key} and {RIVALS[key]} exclude each other", "keep one of the two")


def _table(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}
