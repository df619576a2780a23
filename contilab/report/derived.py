"""Metrics that were computed after training: one small file per run, metric and version, created once.

The file holds what a report needs to show the metric without its code: value or reason, unit, meaning and direction.
"""

from collections.abc import Mapping
from typing import Any

from contilab.disk.put_new import put_new
from contilab.disk.read import names, read_table
from contilab.errors import StoreError
from contilab.metrics.contract import Absent, Metric, Value
from contilab.spec.canonical import canonical
from contilab.store.layout import short, versions
from contilab.store.store import Store

SCHEME = "contilab.derived/1"

_DESCRIPTION = ("summary", "unit", "paper", "tier", "higher_is_better", "is_of_group", "version")


def write_derived(store: Store, rid: str, item: Metric, value: Value) -> None:
    """Keep *value* of *item* for the run *rid*; StoreError if this version of it was kept with another value."""
    outcome = {"reason": value.reason} if isinstance(value, Absent) else {"value": value}
    described = {name: getattr(item, name) for name in _DESCRIPTION if getattr(item, name) is not None}
    path = store.layout.derived_metric(rid, item.name, item.version)
    if not put_new(path, canonical({"v": SCHEME, "metric": item.name, **described, **outcome})):
        problem = f"{item.name} of run {short(rid)} was computed before with another result"
        raise StoreError(str(path), problem, hint="raise the version of the metric, so that both can be told apart")


def read_derived(store: Store, rid: str) -> dict[str, tuple[Metric, Value]]:
    """Return the metrics that were computed later for *rid*, the highest version of each; unreadable files are left out."""
    latest = versions(names(store.layout.derived / rid))
    found = {name: _parsed(read_table(store.layout.derived_metric(rid, name, version))) for name, version in latest.items()}
    return {name: pair for name, pair in found.items() if pair and pair[0].name == name}


def _parsed(table: Mapping[str, Any]) -> tuple[Metric, Value] | None:
    if table.get("v") != SCHEME:
        return None
    try:
        described = {name: table[name] for name in _DESCRIPTION if name in table}
        item = Metric(str(table["metric"]), _no_code, **{"higher_is_better": None, **described})
        return item, float(table["value"]) if "value" in table else Absent(str(table["reason"]))
    except (KeyError, TypeError, ValueError):
        return None


def _no_code(*_: object) -> float:
    raise NotImplementedError("a metric that was read from a file has no formula")
