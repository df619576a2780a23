"""The results of a study as plain rows, for notebooks."""

from pathlib import Path
from typing import Any

from contilab.metrics.contract import Absent
from contilab.report.rows import rows
from contilab.report.runs import read_runs
from contilab.store.store import Store, open_store


def load(store: Store | str | Path, study: str) -> list[dict[str, Any]]:
    """Return one row per run of *study*: the columns of results.csv as values, and `reasons`, by metric, of what is None.

    store: an open store or its folder. `pandas.DataFrame(load("store", "digits"))` makes a table of it. UsageError if there
    is no such study, StoreError if there is no store.
    """
    opened = store if isinstance(store, Store) else open_store(Path(store))
    runs = read_runs(opened, opened.study(study))
    return [
        {**row, "reasons": {name: value.reason for name, value in run.values.items() if isinstance(value, Absent)}}
        for row, run in zip(rows(study, runs), runs, strict=True)
    ]
