"""What a study left: one entry per planned run, with its metrics, or with why it has none."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from safetensors import SafetensorError

from contilab.metrics.compute import compute, evidence_of
from contilab.metrics.contract import Absent, Evidence, Metric, Missing, Value
from contilab.metrics.stream import Stream, stream_from
from contilab.metrics.table import METRICS, metric
from contilab.records.outcome import Arrays, Kept, read_kept, read_record, read_tensors
from contilab.records.record import Record
from contilab.report.characters import printable
from contilab.report.derived import read_derived
from contilab.report.misfit import misfit
from contilab.spec.study import Cell, Study
from contilab.store.result import altered, complete
from contilab.store.status import RunStatus, study_status
from contilab.store.store import Store

UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    RecursionError,
    SafetensorError,
)  # of any files


class RunReport(NamedTuple):
    """One run of a study.

    state: "finished", "diverged", "damaged", or how far it is (waiting, running, cancelled, quarantined);
    *problem* says what kept it from a result. values: every metric by name.
    circumstances: versions, device, precision, threads, execution and members.
    attempt: names the attempt that trained it, together with the other runs of its group. derived: metrics that were
    computed later and are in no menu; their values are among the others. stream: its evaluation stream, if one was recorded.
    """

    cell: Cell
    seed: int
    rid: str
    state: str
    problem: str = ""
    values: Mapping[str, Value] = {}
    record: Record | None = None
    circumstances: Mapping[str, Any] = {}
    attempt: str = ""
    derived: Mapping[str, Metric] = {}
    stream: Stream | None = None

    @property
    def name(self) -> str:
        """What people call the run."""
        varied = "".join(f", {key} = {value}" for key, value in self.cell.sweep.items())
        return f"{self.cell.preset}, {self.cell.method}{varied}, seed {self.seed}"


def read_runs(store: Store, study: Study) -> list[RunReport]:
    """Return the runs of *study*, cell by cell, each seed in the order of the manifest."""
    found = _found(store, study)
    records = _results(found)
    states = study_status(store, _without_runs(study, records.keys()))
    return [
        _computed(cell, seed, rid, records[rid], _cumulative(study, cell, seed, records))
        if rid in records
        else _without(cell, seed, rid, *_why(found[rid], states[rid]))
        for cell in study.cells
        for seed, rid in cell.runs.items()
    ]


def evidence_by_run(store: Store, study: Study) -> dict[str, Evidence]:
    """Return what the formulas may read of each run of *study* that has a usable result."""
    records = _results(_found(store, study))
    return {
        rid: evidence_of(one.record, one.tensors, cumulative=_cumulative(study, cell, seed, records), kept=one.kept)
        for cell in study.cells
        for seed, rid in cell.runs.items()
        if (one := records.get(rid))
    }


def metrics_of(runs: Iterable[RunReport]) -> dict[str, Metric]:
    """Return every metric that *runs* may have, by name: those of the menu, then those that were computed later."""
    later = {name: item for run in runs for name, item in run.derived.items()}
    return {name: metric(name) for name in METRICS} | later


def metric_of(runs: Iterable[RunReport], name: str) -> Metric | None:
    """Return the metric *name* of *runs*; None if it is neither in the menu nor was computed later."""
    if name in METRICS:
        return metric(name)
    return next((run.derived[name] for run in runs if name in run.derived), None)


class _Result(NamedTuple):
    record: Record
    tensors: Arrays
    circumstances: Mapping[str, Any]
    attempt: str
    derived: Mapping[str, tuple[Metric, Value]]
    kept: Kept | None


def _found(store: Store, study: Study) -> dict[str, _Result | str]:
    return {rid: _read(store, rid, cell.scenario) for cell in study.cells for rid in cell.runs.values()}


def _results(found: Mapping[str, _Result | str]) -> dict[str, _Result]:
    return {rid: item for rid, item in found.items() if isinstance(item, _Result)}


def _read(store: Store, rid: str, scenario: str) -> _Result | str:
    """Return the result of *rid*, planned in *scenario*, or what is wrong with it ("" if it is not there)."""
    directory = store.result_dir(rid)
    manifest = complete(directory, rid)
    if manifest is None:
        return "its result is incomplete" if directory.exists() else ""
    names = altered(directory, manifest)
    if names:
        return f"{', '.join(names)} is not what was published"
    try:
        record, tensors = read_record(directory), read_tensors(directory)
    except UNREADABLE as error:
        return f"this version cannot read its record: {error}"
    if wrong := misfit(record, tensors, scenario):
        return f"this version cannot read its record: {wrong}"
    attempt = f"{manifest.gid}.{manifest.n}"
    circumstances = manifest.circumstances if isinstance(manifest.circumstances, dict) else {}
    return _Result(record, tensors, circumstances, attempt, read_derived(store, rid), read_kept(directory))


def _without_runs(study: Study, rids: Collection[str]) -> Study:
    """Return *study* without the runs *rids*, whose results are read already."""
    cells = (replace(cell, runs={seed: rid for seed, rid in cell.runs.items() if rid not in rids}) for cell in study.cells)
    return replace(study, cells=tuple(cells))


def _why(damage: _Result | str, status: RunStatus) -> tuple[str, str]:
    """Return state and problem of a run without a usable result."""
    if damage:
        return "damaged", str(damage)
    is_late = status.state in ("done", "diverged")  # it landed after the results were read
    return ("running", "its result arrived while this report was made") if is_late else (status.state, status.reason)


def _without(cell: Cell, seed: int, rid: str, state: str, problem: str) -> RunReport:
    problem = printable(problem)
    reason = f"the run has no result: {state}{': ' if problem else ''}{problem}"
    return RunReport(cell, seed, rid, state, problem, dict.fromkeys(METRICS, Absent(reason)))


def _computed(cell: Cell, seed: int, rid: str, result: _Result, cumulative: Record | None) -> RunReport:
    values = compute(result.record, result.tensors, cumulative=cumulative, kept=result.kept)
    later = {name: found for name, found in result.derived.items() if name not in values}
    values |= {name: value for name, (_, value) in later.items()}
    lost = result.record.diverged
    problem = f"non-finite loss in task {lost['task']} at step {lost['step']}" if lost else ""
    found = RunReport(cell, seed, rid, result.record.state, problem, values, result.record)
    derived = {name: item for name, (item, _) in later.items()}
    found = found._replace(circumstances=result.circumstances, attempt=result.attempt, derived=derived)
    return found._replace(stream=_stream(result.tensors))


def _stream(tensors: Arrays) -> Stream | None:
    try:
        return stream_from(tensors)
    except Missing:
        return None


def _cumulative(study: Study, cell: Cell, seed: int, results: Mapping[str, _Result]) -> Record | None:
    """Return the record of the cumulative run that *cell* is measured against: same preset, seed and common settings."""
    rids = [
        other.runs[seed]
        for other in study.cells
        if other.method == "cumulative"
        and (other.preset, other.scenario) == (cell.preset, cell.scenario)
        and other.sweep.items() <= cell.sweep.items()
        and other.runs.get(seed) in results
    ]
    return results[rids[0]].record if len(rids) == 1 else None
