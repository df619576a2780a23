"""The results of a study as plain rows, for notebooks."""

from pathlib import Path
from typing import Any

from contilab.metrics.contract import Absent
from contilab.report.benchmark import benchmarks
from contilab.report.rows import rows
from contilab.report.runs import read_runs
from contilab.report.selection import choices, factors, selected
from contilab.store.store import Store, open_store


def load(store: Store | str | Path, study: str) -> list[dict[str, Any]]:
    """Return one row per run of *study*: the columns of results.csv as values, and `reasons`, by metric, of what is None.

    `selected` is None where nothing was chosen: of sizes of memory all are shown, and without validation samples all variants.
    store: an open store or its folder. UsageError if there is no such study, StoreError if there is no store.

    With pandas, the mean over seeds of each method, chosen variants only (polars takes the rows alike)::

        >>> import pandas
        >>> table = pandas.DataFrame(load("store", "digits"))
        >>> means = table[table.selected == True].groupby("method").acc.mean()
        >>> means.round(2).to_dict()
        {'er': 0.79, 'naive': 0.35}
    """
    opened = store if isinstance(store, Store) else open_store(Path(store))
    plan = opened.study(study)
    runs = read_runs(opened, plan)
    varied = factors(plan)
    chosen = selected(choice for benchmark in benchmarks(runs) for choice in choices(benchmark, varied))
    return [
        {**row, "reasons": {name: value.reason for name, value in run.values.items() if isinstance(value, Absent)}}
        for row, run in zip(rows(study, runs, chosen), runs, strict=True)
    ]
