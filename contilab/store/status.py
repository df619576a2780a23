"""The state of every run of a study, derived from names at the moment of asking. Takes no lock and writes nothing."""

import time
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from contilab.disk.read import read_file, read_object, read_table
from contilab.spec.study import Study
from contilab.store.block import Blocks, block, blocks
from contilab.store.generation import Generation, history
from contilab.store.layout import short
from contilab.store.observer import READ_BYTES
from contilab.store.result import complete
from contilab.store.store import Store

State = Literal["done", "diverged", "damaged", "cancelled", "quarantined", "running", "waiting"]


class RunStatus(NamedTuple):
    """The state of one run, and for display only: who works on it, how far it is, what kept it from a result.

    *who* is the host of the runner, else 12 digits of its uuid. *beat_age_s* compares file time with the clock of this
    machine, so it may be wrong by the difference of two clocks; *is_silent* if it exceeds one TTL: probably nobody works.
    *reason*: of a quarantine, or the last failure of a run that waits.
    """

    state: State
    gid: str = ""
    who: str = ""
    step: int = 0
    steps: int = 0
    samples_per_second: float = 0.0
    beat_age_s: float | None = None
    is_silent: bool = False
    reason: str = ""


def study_status(store: Store, study: Study) -> dict[str, RunStatus]:
    """Return the state of each run of *study*, in the order of its manifest.

    It is the first that fits of done (or diverged), damaged, cancelled, quarantined, running, waiting. A run of several groups
    is in the state of the one that gets furthest.
    """
    taken = store.taken()
    open_runs = {rid for rid in study.rids if rid not in taken}
    groups = _groups_of(store, open_runs)
    hosts, recorded = dict[str, str](), blocks(store.layout)
    of_group = {
        gid: _group_status(store, gid, recorded, hosts)
        for gid in dict.fromkeys(gid for gids in groups.values() for gid in gids)
    }
    return {
        rid: _result_status(store, rid) if rid in taken else _first(of_group[gid] for gid in groups.get(rid, ()))
        for rid in study.rids
    }


def counts(states: Mapping[str, RunStatus]) -> dict[State, int]:
    """Return how many runs are in each state, states without a run left out."""
    found: dict[State, int] = {}
    for status in states.values():
        found[status.state] = found.get(status.state, 0) + 1
    return found


def _result_status(store: Store, rid: str) -> RunStatus:
    manifest = complete(store.result_dir(rid), rid)
    if manifest is None:
        return RunStatus("damaged", reason=f"{store.result_dir(rid)} is not a complete result")
    state: State = "diverged" if manifest.state == "diverged" else "done"
    return RunStatus(state, gid=manifest.gid)


def _groups_of(store: Store, rids: set[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for gid, members in store.groups().items() if rids else ():
        for rid in rids.intersection(members):
            groups.setdefault(rid, []).append(gid)
    return groups


def _first(states: Iterable[RunStatus]) -> RunStatus:
    order = ("running", "waiting", "quarantined", "cancelled")
    return min(states, key=lambda status: order.index(status.state), default=RunStatus("waiting"))


def _group_status(store: Store, gid: str, recorded: Blocks, hosts: dict[str, str]) -> RunStatus:
    past = history(store.layout, gid)
    last = past.attempts[-1] if past.attempts else None
    who = _who(store, last, hosts) if last else ""
    if blocked := block(store.layout, gid, recorded, past):
        return RunStatus(blocked.state, gid, who, reason=blocked.reason)
    if last and last.is_open:
        return _running(store, gid, last, hosts)
    return RunStatus("waiting", gid, who if last and last.failure else "", reason=last.failure if last else "")


def _running(store: Store, gid: str, last: Generation, hosts: dict[str, str]) -> RunStatus:
    path = store.layout.beat(gid, last.n)
    facts = read_object(read_file(path, READ_BYTES))
    try:
        age = max(time.time() - path.stat().st_mtime, 0.0)
    except OSError:  # no beat yet
        age = None
    return RunStatus(
        "running",
        gid,
        _who(store, last, hosts),
        step=int(_number(facts.get("step"))),
        steps=int(_number(facts.get("steps"))),
        samples_per_second=_number(facts.get("samples_per_second")),
        beat_age_s=age,
        is_silent=age is not None and age > store.ttl_s,
    )


def _number(value: object) -> float:
    """Return *value*, or 0 where somebody has written something else: what is shown must not stop who looks."""
    return float(value) if isinstance(value, int | float) and 0 <= value < float("inf") else 0.0


def _who(store: Store, last: Generation, hosts: dict[str, str]) -> str:
    if last.runner not in hosts:
        host = read_table(store.layout.runner(last.runner)).get("host")
        hosts[last.runner] = str(host or short(last.runner))
    return hosts[last.runner]
