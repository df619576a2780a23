"""What `contilab status` says of a study: progress, cells, who works on what, and what keeps runs from their results."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from contilab.cli.columns import columns
from contilab.spec.study import Cell, Study
from contilab.store.generation import highest
from contilab.store.layout import short
from contilab.store.status import RunStatus, State, counts
from contilab.store.store import Store

STATES: tuple[State, ...] = ("done", "diverged", "running", "waiting", "quarantined", "cancelled", "damaged")
BAR = 20  # characters
Statuses = dict[str, RunStatus]


class View(NamedTuple):
    """A study at one moment: *states* of its runs, *bytes* it takes, *unplanned* results of its earlier plans."""

    study: Study
    states: Statuses
    bytes: int
    unplanned: tuple[str, ...]

    @property
    def is_open(self) -> bool:
        """Whether a run may still get a result without anybody's help."""
        return any(status.state in ("running", "waiting") for status in self.states.values())


class Pace(NamedTuple):
    """How fast a group is, and how much is left of it: *steps* of *members*, at *rate* steps of a member per second."""

    steps: int
    left: int
    rate: float


def page(store: Store, view: View) -> Iterator[str]:
    """Yield the lines of a study."""
    study, states = view.study, view.states
    total, have = len(states), counts(states)
    done = have.get("done", 0) + have.get("diverged", 0)
    filled = BAR * done // total if total else BAR
    head = f"study {study.name}  [{'#' * filled}{'.' * (BAR - filled)}]  {done} of {total} runs have a result"
    left = seconds_left(store, states)
    yield head + (f", about {spoken(left)} left at this speed" if left else "") + f", {view.bytes / 2**20:,.1f} MiB"
    shown = [state for state in STATES if have.get(state) or state == "done"]
    settings = any(cell.sweep for cell in study.cells)
    header = ["  preset", "method", *(["settings"] if settings else []), "runs", *shown]
    rows = [_row(cell, states, shown, settings=settings) for cell in study.cells]
    yield columns([header, *rows], right=range(len(header) - len(shown) - 1, len(header)))
    yield from _running(store, states)
    yield from _hindered(store, states)
    if view.unplanned:
        yield f"  not in the manifest any more: {len(view.unplanned)} results; contilab prune {study.name} removes them"


def table(store: Store, view: View) -> dict[str, Any]:
    """Return the same as plain tables, run by run."""
    seeds = {rid: (cell, seed) for cell in view.study.cells for seed, rid in cell.runs.items()}
    runs = []
    for rid, status in view.states.items():
        cell, seed = seeds[rid]
        facts = {name: value for name, value in status._asdict().items() if value not in ("", None)}
        where = {"evidence": found} if status.state != "running" and (found := evidence(store, status)) else {}
        runs.append({"rid": rid, "preset": cell.preset, "method": cell.method, **cell.sweep, "seed": seed, **facts, **where})
    return {
        "study": view.study.name,
        "counts": counts(view.states),
        "bytes": view.bytes,
        "seconds_left": seconds_left(store, view.states),
        "unplanned": list(view.unplanned),
        "runs": runs,
    }


def seconds_left(store: Store, states: Statuses) -> float | None:
    """Return how long what is open takes at the speed of now, a waiting run taken to be like those in work; None if unknown."""
    paces = [pace for gid in _groups(states, "running") if (pace := _pace(store, states, gid))]
    rate = sum(pace.rate for pace in paces)
    if not rate:
        return None
    waiting = sum(status.state == "waiting" for status in states.values())
    mean = sum(pace.steps for pace in paces) / len(paces)
    return (sum(pace.left for pace in paces) + waiting * mean) / rate


def spoken(seconds: float) -> str:
    """Return a time as people say it.

    >>> spoken(95), spoken(7200), spoken(40)
    ('2 min', '2.0 h', '40 s')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def evidence(store: Store, status: RunStatus) -> str:
    """Return the file that says how the last attempt at the group of a run ended; empty if nothing went wrong."""
    if status.state not in ("quarantined", "waiting") or not status.reason:
        return ""
    layout = store.layout
    last = next((n for n in range(highest(layout, status.gid), 0, -1) if layout.end(status.gid, n).exists()), 0)
    return str(layout.end(status.gid, last).absolute()) if last else ""


def _pace(store: Store, states: Statuses, gid: str) -> Pace | None:
    members = [rid for rid, status in states.items() if status.gid == gid and status.state == "running"]
    status = states[members[0]]
    if not (status.steps and status.samples_per_second):
        return None
    per_step = store.run(members[0]).train.batch
    left = len(members) * (status.steps - status.step)
    return Pace(status.steps, left, status.samples_per_second / per_step)


def _row(cell: Cell, states: Statuses, shown: list[State], *, settings: bool) -> list[object]:
    have = counts({rid: states[rid] for rid in cell.runs.values()})
    own = [" ".join(f"{key}={value}" for key, value in cell.sweep.items())] if settings else []
    return [f"  {cell.preset}", cell.method, *own, len(cell.runs), *(have.get(state, 0) for state in shown)]


def _groups(states: Statuses, state: State) -> dict[str, RunStatus]:
    return {status.gid: status for status in states.values() if status.state == state}


def _members(states: Iterable[RunStatus], gid: str, state: State) -> str:
    count = sum(status.gid == gid and status.state == state for status in states)
    return f"group {short(gid)} ({count} run{'' if count == 1 else 's'})"


def _running(store: Store, states: Statuses) -> Iterator[str]:
    for gid, status in _groups(states, "running").items():
        age = "no beat yet" if status.beat_age_s is None else f"beat {status.beat_age_s:.0f} s ago"
        silent = ", probably gone: others take over after a while" if status.is_silent else ""
        rate = f", {status.samples_per_second:,.0f} samples/s" if status.samples_per_second else ""
        steps = f"step {status.step} of {status.steps}" if status.steps else "starting"  # no beat has told a step yet
        pace = _pace(store, states, gid)
        left = f", {spoken(pace.left / pace.rate)} left" if pace else ""
        yield f"  running: {_members(states.values(), gid, 'running')} on {status.who}, {steps}{rate}{left}, {age}{silent}"


def _hindered(store: Store, states: Statuses) -> Iterator[str]:
    """Yield what keeps runs from their results, and the way out."""
    for gid, status in _groups(states, "quarantined").items():
        yield f"  quarantined: {_members(states.values(), gid, 'quarantined')}: {' '.join(status.reason.split())}"
        yield f"    contilab status {short(gid)} shows its attempts; contilab retry {short(gid)} releases it"
    for gid in _groups(states, "cancelled"):
        yield f"  cancelled: {_members(states.values(), gid, 'cancelled')}; contilab retry {short(gid)} releases it"
    for gid, status in _groups({rid: one for rid, one in states.items() if one.reason}, "waiting").items():
        yield f"  waiting: {_members(states.values(), gid, 'waiting')}, last try: {' '.join(status.reason.split())}"
        if found := evidence(store, status):
            yield f"    said by {found}; contilab run tries it again"
    for rid, status in states.items():
        if status.state == "damaged":
            yield f"  damaged: run {short(rid)}: {status.reason}; contilab retry {short(rid)} moves it aside"
