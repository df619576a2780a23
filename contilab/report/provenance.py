"""What was run: plan, data, machines, versions and circumstances of a study, each with the number of runs behind it."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from contilab.disk.read import read_table
from contilab.report.benchmark import Benchmark, plain
from contilab.report.runs import RunReport
from contilab.report.table import Column, Entry, Line, Table
from contilab.spec.study import Study
from contilab.store.store import Store

ENVIRONMENT = "env.json"  # beside each result, written by the runner
CHOICES = ("device", "precision", "compile", "execution", "threads")  # of circumstances
MIB = 2**20


class Provenance(NamedTuple):
    """*facts* by name, each with its values; *seeds*: the state of every planned seed by cell."""

    facts: tuple[tuple[str, tuple[str, ...]], ...]
    seeds: Table


def provenance(store: Store, study: Study, runs: Sequence[RunReport], benchmarks: Sequence[Benchmark]) -> Provenance:
    """Return what is known of how *runs* came about."""
    done = [run for run in runs if run.record]
    facts = (
        ("manifest", (f"{study.name}.toml, SHA-256 {hashlib.sha256(study.manifest.encode()).hexdigest()}",)),
        ("plan", (f"number {store.plan_number(study.name)} of this study, {len(study.cells)} cells, {len(runs)} runs",)),
        ("data", tuple(dict.fromkeys(_data(store, benchmarks)))),
        ("machines", _counted(_machine(store, run.rid) for run in done)),
        *((name, _counted(plain(run.circumstances[name]) for run in done if name in run.circumstances)) for name in CHOICES),
        ("runs trained together", _counted(str(run.record.cost.members) for run in done if run.record)),
        ("versions", tuple(f"{name} {values}" for name, values in versions(runs).items())),
    )
    return Provenance(tuple((name, values) for name, values in facts if values), _seeds(benchmarks))


def versions(runs: Iterable[RunReport]) -> dict[str, str]:
    """Return, by package, the versions that trained *runs*."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        for name, version in _table(run.circumstances, "versions").items():
            found.setdefault(name, {})[str(version)] = None
    return {name: ", ".join(sorted(values)) for name, values in sorted(found.items())}


def _data(store: Store, benchmarks: Iterable[Benchmark]) -> Iterable[str]:
    for benchmark in benchmarks:
        for variant in benchmark.variants:
            data = store.run(variant.runs[0].rid).data
            yield f"{data.name}, SHA-256 {data.digest}"


def _machine(store: Store, rid: str) -> str:
    """Return the machine that trained *rid* in words; its name is left out, since it says nothing to others."""
    facts = read_table(store.result_dir(rid) / ENVIRONMENT)
    cpu, host = _table(_table(facts, "capabilities"), "cpu"), _table(facts, "host")
    parts = [
        str(cpu.get("model", "")),
        f"{cpu['cores_physical']} cores" if cpu.get("cores_physical") else "",
        f"{host['memory_bytes'] // MIB // 1024} GiB" if isinstance(host.get("memory_bytes"), int) else "",
        str(host.get("system", "")),
        *(str(device.get("name", "")) for device in _devices(facts)),
    ]
    return ", ".join(filter(None, parts))


def _devices(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = _table(facts, "capabilities").get("cuda", [])
    return [device for device in found if isinstance(device, Mapping)] if isinstance(found, list) else []


def _table(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = facts.get(name)
    return found if isinstance(found, Mapping) else {}


def _counted(values: Iterable[str]) -> tuple[str, ...]:
    found = Counter(filter(None, values))
    return tuple(f"{value} ({count} run{'s' if count > 1 else ''})" for value, count in sorted(found.items()))


def _seeds(benchmarks: Sequence[Benchmark]) -> Table:
    """Return cell by seeds: how many are finished, and which are not, with their state."""
    lines = []
    for benchmark in benchmarks:
        for variant in benchmark.variants:
            rest = [f"{run.seed} {run.state}" for run in variant.runs if run.state != "finished"]
            finished = Entry(f"{len(variant.runs) - len(rest)} of {len(variant.runs)}", sort=len(variant.runs) - len(rest))
            lines.append(Line(variant.label, benchmark.preset, (finished, Entry("; ".join(rest)))))
    return Table("method", (Column("finished seeds"), Column("other seeds")), tuple(lines), ())
