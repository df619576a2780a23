"""Computing metrics of finished runs later, from what they recorded, without training and without data."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from contilab.errors import InputError, UsageError
from contilab.metrics.contract import Absent, Evidence, Metric, Value, misdescribed
from contilab.metrics.table import METRICS, metric
from contilab.report.derived import write_derived
from contilab.report.runs import evidence_by_run
from contilab.spec.entry import load
from contilab.store.layout import METRIC, short
from contilab.store.store import Store


class Derived(NamedTuple):
    """What came out for one metric: how many runs have a *value*, and how many lack it, by reason."""

    name: str
    values: int
    absent: dict[str, int]


def derive(store: Store, study: str, metrics: Sequence[Metric]) -> list[Derived]:
    """Compute *metrics* of every run of *study* that has a usable result, and keep them; once kept they are not rewritten.

    UsageError if there is no such study, InputError if a formula fails, StoreError if a metric was kept with other values.
    """
    found = evidence_by_run(store, store.study(study))
    return [_derived(store, item, found) for item in metrics]


def chosen_metrics(names: Iterable[str], tier: str = "") -> list[Metric]:
    """Return the metrics *names*, each of the menu or "module:NAME" of the user, and those of *tier*; UsageError otherwise."""
    of_tier = [name for name in METRICS if metric(name).tier == tier]
    found = [metric(name) if name in METRICS else _own(name) for name in dict.fromkeys([*names, *of_tier])]
    if not found:
        problem = f"no metric is of the tier {tier}" if tier else "no metric was named"
        raise UsageError("contilab metrics", problem, hint="name one with --add; contilab list shows all")
    return found


def _derived(store: Store, item: Metric, found: dict[str, Evidence]) -> Derived:
    reasons: Counter[str] = Counter()
    for rid, evidence in found.items():
        value = _value(item, rid, evidence)
        write_derived(store, rid, item, value)
        reasons.update([value.reason] if isinstance(value, Absent) else [])
    return Derived(item.name, len(found) - reasons.total(), dict(reasons))


def _value(item: Metric, rid: str, evidence: Evidence) -> Value:
    try:
        return item.of(evidence)
    except Exception as error:  # a formula of the user may raise anything
        problem = f"the formula failed on run {short(rid)}: {type(error).__name__}: {error}"
        hint = "let it raise contilab.metrics.contract.Missing where a run has no value"
        raise InputError(item.name, problem, hint=hint) from error


def _own(reference: str) -> Metric:
    """Return the metric that "module:NAME" points at; modules are also found in the working directory."""
    if ":" not in reference:
        near = get_close_matches(reference, METRICS, n=1)
        hint = f'did you mean "{near[0]}"?' if near else "contilab list shows all; your own one is MODULE:NAME"
        raise UsageError("--add", f'there is no metric "{reference}"', hint=hint)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # at the end, so that it hides nothing
    try:
        found = load(reference)
    except (Exception, SystemExit) as error:  # a file of the user may raise anything
        hint = "name the file without .py, and what it calls the metric: MODULE:NAME"
        raise UsageError("--add", f"{reference} cannot be loaded: {error}", hint=hint) from error
    if not isinstance(found, Metric) or not METRIC.fullmatch(str(found.name)):
        problem = f"{reference} is no Metric with a name of small letters, digits and _"
        raise UsageError("--add", problem, hint="make it with contilab.metrics.contract.Metric(name, function, summary)")
    if wrong := misdescribed(found):
        raise UsageError("--add", f"{reference}: {wrong}", hint="mend it; contilab.metrics.contract.Metric says what it takes")
    if found.name in METRICS and found is not metric(found.name):  # the report would show it as the metric of the menu
        raise UsageError(
            "--add", f'{reference} has the name of another metric, "{found.name}"', hint="give it a name of its own"
        )
    return found
