"""The rows of results: one per run, as notebooks, results.csv and absent.csv hold them."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from contilab.metrics.contract import Absent, Metric, Value
from contilab.report.benchmark import NOT_COMPUTED, plain
from contilab.report.numbers import exact
from contilab.report.runs import RunReport, metrics_of

FIRST = ("study", "run", "preset", "scenario", "method", "seed")
FORMULA = ("=", "+", "-", "@", "\t", "\n", *"＝＋－＠")  # of OWASP, and in full width; a return is written as a new line


def swept_keys(runs: Sequence[RunReport]) -> list[str]:
    """Return the keys that vary in a study, in the order of the manifest."""
    return list(dict.fromkeys(key for run in runs for key in run.cell.sweep))


def rows(study: str, runs: Sequence[RunReport], selected: Mapping[str, bool]) -> list[dict[str, Any]]:
    """Return one row per run: who it is, one column per swept key, `state`, `selected`, then every metric, None where absent.

    selected: by run, whether its variant was chosen on validation samples; None for a run of a method without a choice.
    """
    keys, metrics = swept_keys(runs), metrics_of(runs)
    return [
        {
            **dict(zip(FIRST, (study, run.rid, run.cell.preset, run.cell.scenario, run.cell.method, run.seed), strict=True)),
            **{key: run.cell.sweep.get(key) for key in keys},
            "state": run.state,
            "selected": selected.get(run.rid),
            **{name: _plain(run.values.get(name, NOT_COMPUTED), item) for name, item in metrics.items()},
        }
        for run in runs
    ]


def results_csv(found: Sequence[Mapping[str, Any]]) -> bytes:
    """Return results.csv of *found*, as `rows` gives them: UTF-8, one header, one row per run, an absent value is empty."""
    return csv_of(list(found[0]) if found else [*FIRST, "state", "selected"], found)


def absent_csv(runs: Sequence[RunReport]) -> bytes:
    """Return absent.csv: for each empty metric of results.csv the run, the metric and the reason."""
    metrics = metrics_of(runs)
    absent = [
        {"run": run.rid, "metric": name, "reason": value.reason}
        for run in runs
        for name in metrics
        if isinstance(value := run.values.get(name, NOT_COMPUTED), Absent)
    ]
    return csv_of(["run", "metric", "reason"], absent)


def csv_of(header: Sequence[str], lines: Iterable[Mapping[str, Any]]) -> bytes:
    """Return *lines* as CSV with *header*; None is empty, and no text is read as a formula by a spreadsheet."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_text(name) for name in header])
    writer.writerows([_text(line[name]) for name in header] for line in lines)
    return out.getvalue().encode()


def _plain(value: Value, item: Metric) -> float | None:
    return None if isinstance(value, Absent) else exact(value, item.unit)


def _text(value: Any) -> str:
    if value is None:
        return ""
    # `csv` quotes new lines only: a bare return would end the row, and what follows it would stand in a cell of its own
    text = plain(value).replace("\r\n", "\n").replace("\r", "\n")
    # spreadsheets run a text that begins like a formula; the apostrophe, which they do not show, makes it a text (OWASP)
    return f"'{text}" if isinstance(value, str) and text.startswith(FORMULA) else text
