"""What bench measured, as the JSON file holds it and as profiles keep it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any

from contilab.bench.bounds import Bounds
from contilab.bench.measure import Measured, Row
from contilab.hardware.capabilities import capabilities
from contilab.hardware.fingerprint import this_machine
from contilab.hardware.limits import limits
from contilab.hardware.profile import Answer, put
from contilab.hardware.versions import versions


def as_table(measured: Sequence[Measured]) -> dict[str, Any]:
    """Return *measured* in the form of the JSON file; one at a time is the speed of the first model, beside those of all."""
    alone = {one.shape.model: one.one_at_a_time for one in reversed(measured)}
    most = reduce(Bounds.best_of, (one.bounds for one in measured))
    return {
        "machine": _machine(measured),
        "bounds": {"gemm_gflops": round(most.gemm_gflops, 1), "copy_gb_per_s": round(most.copy_gb_per_s, 1)},
        "one_at_a_time": {
            "samples_per_s": round(measured[0].one_at_a_time, 1),
            "by_model": {name: round(speed, 1) for name, speed in sorted(alone.items())},
        },
        "rows": [_row(row) for one in measured for row in one.against(most).rows],
    }


def keep(measured: Measured, folder: Path, *, replaces: bool) -> bool:
    """Keep *measured* for `auto` in *folder*; False if an earlier answer stays there, or nothing could be measured."""
    if not measured.rates:
        return False
    answer = Answer(measured.rates, "bench", _now(), round(measured.foreign_cores, 2), measured.flops_per_sample)
    return put(folder, measured.shape, answer, replaces=replaces)


def _machine(measured: Sequence[Measured]) -> dict[str, Any]:
    here = this_machine()
    return {
        "fingerprint": here.fingerprint,
        **here.facts,
        "capabilities": capabilities(),
        "cgroup": limits()._asdict(),
        "versions": versions(),
        "measured": _now(),
        "foreign_cores": round(max(one.foreign_cores for one in measured), 2),
        "rounds_again": sum(one.again for one in measured),
    }


def _row(row: Row) -> dict[str, Any]:
    table = row._asdict()
    return table if row.reason else {name: value for name, value in table.items() if name != "reason"}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
