"""`contilab status`: what is done, who works on what, what failed and why."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from contilab.cli.columns import columns
from contilab.cli.options import DEFAULT_STORE, StoreOption
from contilab.spec.study import Cell, Study
from contilab.store.generation import highest
from contilab.store.layout import short
from contilab.store.status import RunStatus, State, counts, study_status
from contilab.store.store import Store, open_store

STATES: tuple[State, ...] = ("done", "diverged", "running", "damaged", "cancelled", "quarantined", "waiting")
BAR = 20  # characters
Statuses = dict[str, RunStatus]


def status(
    study: Annotated[str | None, typer.Argument(help="Only this study.", show_default=False)] = None,
    *,
    store: StoreOption = DEFAULT_STORE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show progress, who works on what, what failed and why."""
    opened = open_store(store)
    studies = [opened.study(study)] if study else list(opened.studies().values())
    found = {one.name: study_status(opened, one) for one in studies}
    if as_json:
        typer.echo(json.dumps([_table(opened, one, found[one.name]) for one in studies], indent=1))
        return
    typer.echo(f"store: {store.absolute()}")
    if not studies:
        typer.echo("nothing is planned: contilab plan MANIFEST plans a study")
    for one in studies:
        typer.echo("\n" + "\n".join(_page(opened, one, found[one.name])))
    for record in opened.mismatches():
        typer.echo(f"\ntwo attempts disagree about run {short(record['rid'])}: {record['found']}")


def _page(store: Store, study: Study, states: Statuses) -> Iterator[str]:
    total, have = len(states), counts(states)
    done = have.get("done", 0) + have.get("diverged", 0)
    filled = BAR * done // total if total else BAR
    yield f"study {study.name}  [{'#' * filled}{'.' * (BAR - filled)}]  {done} of {total} runs have a result"
    shown = [state for state in STATES if have.get(state) or state == "done"]
    settings = any(cell.sweep for cell in study.cells)
    header = ["  preset", "method", *(["settings"] if settings else []), "runs", *shown]
    rows = [_row(cell, states, shown, settings=settings) for cell in study.cells]
    yield columns([header, *rows], right=range(len(header) - len(shown) - 1, len(header)))
    yield from _running(states)
    yield from _broken(store, states)


def _row(cell: Cell, states: Statuses, shown: list[State], *, settings: bool) -> list[object]:
    have = counts({rid: states[rid] for rid in cell.runs.values()})
    own = [_settings(cell)] if settings else []
    return [f"  {cell.preset}", cell.method, *own, len(cell.runs), *(have.get(state, 0) for state in shown)]


def _settings(cell: Cell) -> str:
    return " ".join(f"{key}={value}" for key, value in cell.sweep.items())


def _running(states: Statuses) -> Iterator[str]:
    groups = {status.gid: status for status in states.values() if status.state == "running"}
    for gid, status in groups.items():
        members = sum(1 for other in states.values() if other.gid == gid and other.state == "running")
        age = "no beat yet" if status.beat_age_s is None else f"beat {status.beat_age_s:.0f} s ago"
        silent = ", probably gone: others take over after a while" if status.is_silent else ""
        rate = f", {status.samples_per_second:,.0f} samples/s" if status.samples_per_second else ""
        steps = f"step {status.step} of {status.steps}" if status.steps else "starting"  # no beat has told a step yet
        yield f"  running: group {short(gid)} ({members} runs) on {status.who}, {steps}{rate}, {age}{silent}"


def _broken(store: Store, states: Statuses) -> Iterator[str]:
    groups = {status.gid: status for status in states.values() if status.state == "quarantined"}
    for gid, status in groups.items():
        members = sum(1 for other in states.values() if other.gid == gid and other.state == "quarantined")
        yield f"  quarantined: group {short(gid)} ({members} runs): {' '.join(status.reason.split())}"
        yield f"    traceback: {_evidence(store, gid)}; contilab retry {short(gid)} releases it"
    yield from _tried(states)
    for rid, status in states.items():
        if status.state == "damaged":
            yield f"  damaged: run {short(rid)}: {status.reason}"


def _tried(states: Statuses) -> Iterator[str]:
    """Yield why groups wait that were tried already: the machine failed them, not the training."""
    tried = [status for status in states.values() if status.state == "waiting" and status.reason]
    for gid, status in {status.gid: status for status in tried}.items():
        members = sum(1 for other in tried if other.gid == gid)
        yield f"  waiting: group {short(gid)} ({members} runs), last try: {' '.join(status.reason.split())}"


def _evidence(store: Store, gid: str) -> str:
    return str(store.layout.end(gid, highest(store.layout, gid)).absolute())


def _table(store: Store, study: Study, states: Statuses) -> dict[str, Any]:
    seeds = {rid: (cell, seed) for cell in study.cells for seed, rid in cell.runs.items()}
    runs = []
    for rid, status in states.items():
        cell, seed = seeds[rid]
        facts = {name: value for name, value in status._asdict().items() if value not in ("", None)}
        evidence = {"evidence": _evidence(store, status.gid)} if status.state == "quarantined" else {}
        runs.append({"rid": rid, "preset": cell.preset, "method": cell.method, **cell.sweep, "seed": seed, **facts, **evidence})
    return {"study": study.name, "counts": counts(states), "runs": runs}
