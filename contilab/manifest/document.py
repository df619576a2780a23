"""The document of a manifest with its settings by dotted key, whichever way they were written.

`"train.epochs" = 2`, `train.epochs = 2` and a table `[overrides.train]` mean the same.
"""

from collections.abc import Iterator
from typing import Any

from contilab.errors import Fault
from contilab.manifest.keys import SECTIONS

TABLES = ("matrix", "overrides", "sweep")  # hold settings by dotted key
TABLES_BY_NAME = ("method_sweep", "preset_overrides", "method_overrides")  # hold such a table per method or preset
BENCHMARK = "benchmark"  # a table of its keys by their short names; `source` is `benchmark.name`
TOP = ("name", "profile", BENCHMARK, *TABLES, *TABLES_BY_NAME)


def flat_document(document: dict[str, Any]) -> dict[str, Any]:
    """Return *document* with the settings of its tables by dotted key; what is no table stays as it is."""
    flat = dict(document)
    for table in TABLES:
        if isinstance(flat.get(table), dict):
            flat[table] = flat_table(flat[table])
    for table in TABLES_BY_NAME:
        if isinstance(flat.get(table), dict):
            flat[table] = {
                name: _flat_twice(inner) if isinstance(inner, dict) else inner for name, inner in flat[table].items()
            }
    if isinstance(flat.get("matrix"), dict) and "method.name" in flat["matrix"]:
        flat["matrix"].setdefault("method", flat["matrix"].pop("method.name"))
    return flat


def benchmark_settings(table: dict[str, Any]) -> dict[str, Any]:
    """Return what the table `[benchmark]` of a manifest says, by dotted key.

    >>> benchmark_settings({"source": "npz", "tasks": 3})
    {'benchmark.name': 'npz', 'benchmark.tasks': 3}
    """
    return {f"{BENCHMARK}.{'name' if key == 'source' else key}": value for key, value in table.items()}


def flat_table(table: dict[str, Any]) -> dict[str, Any]:
    """Return *table* by dotted key.

    >>> flat_table({"train": {"epochs": 2}, "optim.lr": 0.1})
    {'train.epochs': 2, 'optim.lr': 0.1}
    """
    return dict(_leaves(table))


def named_tables(document: dict[str, Any]) -> dict[str, Any]:
    """Return the tables that *document* holds per method or preset, and those of a preset within a method, by full name."""
    found: dict[str, Any] = {}
    for outer in TABLES_BY_NAME:
        for name, table in document[outer].items() if isinstance(document.get(outer), dict) else ():
            found[f"{outer}.{name}"] = table
            for inner, deeper in table.items() if outer == "method_overrides" and isinstance(table, dict) else ():
                if isinstance(deeper, dict) and inner not in SECTIONS:
                    found[f"{outer}.{name}.{inner}"] = deeper
    return found


def doubled(document: dict[str, Any], place: str) -> list[Fault]:
    """Return a fault for each setting that *document* holds in two ways of writing."""
    tables = {**{name: document.get(name) for name in TABLES}, **named_tables(document)}
    return [
        Fault(f"{place}: {name}.{key}", "the key stands twice, written in two ways", "keep one of them")
        for name, table in tables.items()
        if isinstance(table, dict)
        for key in _repeated([key for key, _ in _leaves(table)])
    ]


def _flat_twice(table: dict[str, Any]) -> dict[str, Any]:
    """Return *table* by dotted key, and so the tables of presets within it."""
    return {key: flat_table(value) if isinstance(value, dict) else value for key, value in flat_table(table).items()}


def _leaves(table: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict) and key in SECTIONS:
            yield from ((f"{key}.{short}", inner) for short, inner in value.items())
        else:
            yield key, value


def _repeated(keys: list[str]) -> list[str]:
    return [key for key in dict.fromkeys(keys) if keys.count(key) > 1]
