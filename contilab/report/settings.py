"""Settings of runs by dotted key, as tables, protocols and comparisons name them."""

from collections.abc import Iterator, Mapping
from typing import Any


def flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of *table* and of the tables within it, by dotted key; a tuple is the list that a manifest holds.

    >>> flat({"model": {"name": "mlp", "hidden": (400, 400)}, "optim.lr": 0.1})
    {'model.name': 'mlp', 'model.hidden': [400, 400], 'optim.lr': 0.1}
    """
    return dict(_leaves(table, ""))


def _leaves(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", list(value) if isinstance(value, tuple) else value
