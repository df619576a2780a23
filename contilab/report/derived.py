"""Metrics that were computed after training: one small file per run, metric and version, created once.

The file holds what a report needs to show the metric without its code: value or reason, unit, meaning and direction.
"""

import sys
from collections.abc import Mapping
from typing import Any

from contilab.disk.put_new import put_new
from contilab.disk.read import names, read_table
from contilab.errors import StoreError
from contilab.metrics.contract import Absent, Metric, Value, misdescribed
from contilab.report.characters import printable
from contilab.spec.canonical import canonical
from contilab.store.layout import short, versions
from contilab.store.store import Store

SCHEME = "contilab.derived/1"

_DESCRIPTION = ("summary", "unit", "paper", "tier", "higher_is_better", "is_of_group", "version")


def write_derived(store: Store, rid: str, item: Metric, value: Value) -> None:
    """Keep *value* of *item* for the run *rid*; StoreError if this version of it was kept with another value."""
    outcome = {"reason": printable(value.reason)} if isinstance(value, Absent) else {"value": value}
    described = {name: _printable(getattr(item, name)) for name in _DESCRIPTION if getattr(item, name) is not None}
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
    if table.get("v") != SCHEME or not isinstance(table.get("summary"), str):
        return None
    described = {name: _printable(table[name]) for name in _DESCRIPTION if name in table}
    item = Metric(str(table.get("metric")), _no_code, **{"higher_is_better": None, **described})
    value = table["value"] if "value" in table else _printable(table.get("reason"))
    if misdescribed(item):
        return None
    if isinstance(value, str):
        return (item, Absent(value)) if "value" not in table else None
    return (item, float(value)) if type(value) in (int, float) and abs(value) <= sys.float_info.max else None


def _printable(value: Any) -> Any:
    return printable(value) if isinstance(value, str) else value


def _no_code(*_: object) -> float:
    raise NotImplementedError("a metric that was read from a file has no formula")
