"""The rows of results: one per run, as notebooks, results.csv and absent.csv hold them."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from contilab.metrics.contract import Absent, Value
from contilab.metrics.table import METRICS, metric
from contilab.report.benchmark import plain
from contilab.report.numbers import exact
from contilab.report.runs import RunReport

FIRST = ("study", "run", "preset", "scenario", "method", "seed")


def swept_keys(runs: Sequence[RunReport]) -> list[str]:
    """Return the keys that vary in a study, in the order of the manifest."""
    return list(dict.fromkeys(key for run in runs for key in run.cell.sweep))


def rows(study: str, runs: Sequence[RunReport]) -> list[dict[str, Any]]:
    """Return one row per run: who it is, one column per swept key, `state`, then every metric, None where absent."""
    keys = swept_keys(runs)
    return [
        {
            **dict(zip(FIRST, (study, run.rid, run.cell.preset, run.cell.scenario, run.cell.method, run.seed), strict=True)),
            **{key: run.cell.sweep.get(key) for key in keys},
            "state": run.state,
            **{name: _plain(run.values[name], name) for name in METRICS},
        }
        for run in runs
    ]


def results_csv(study: str, runs: Sequence[RunReport]) -> bytes:
    """Return results.csv: UTF-8, one header, one row per run, an absent value is empty."""
    header = [*FIRST, *swept_keys(runs), "state", *METRICS]
    return _csv(header, [[_text(row[name]) for name in header] for row in rows(study, runs)])


def absent_csv(runs: Sequence[RunReport]) -> bytes:
    """Return absent.csv: for each empty metric of results.csv the run, the metric and the reason."""
    absent = ([run.rid, name, value.reason] for run in runs for name, value in run.values.items() if isinstance(value, Absent))
    return _csv(["run", "metric", "reason"], list(absent))


def _plain(value: Value, name: str) -> float | None:
    return None if isinstance(value, Absent) else exact(value, metric(name).unit)


def _text(value: Any) -> str:
    return "" if value is None else plain(value)


def _csv(header: list[str], lines: list[list[str]]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([header, *lines])
    return out.getvalue().encode()
