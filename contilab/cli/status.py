"""`contilab status`: what is done, who works on what, what keeps runs from their results; all about one run or group."""

import json
import sys
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from contilab.cli.attempt_page import group_page, group_table, run_page, run_table
from contilab.cli.options import DEFAULT_STORE, StoreOption
from contilab.cli.study_page import View, page, table
from contilab.spec.study import Study
from contilab.store.layout import short
from contilab.store.status import study_status
from contilab.store.store import Store, open_store
from contilab.store.target import Target, target
from contilab.store.usage import study_bytes

WATCH_SECONDS = 2.0  # between two looks; chosen
CLEAR = "\x1b[H\x1b[2J"  # of a terminal


def status(
    what: Annotated[str | None, typer.Argument(metavar="[STUDY|GROUP|RUN]", help="Only this one.", show_default=False)] = None,
    *,
    store: StoreOption = DEFAULT_STORE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again until nothing is left to do.")] = False,
) -> None:
    """Show progress, who works on what, what failed and why; of one run or group, its attempts and traceback."""
    opened = open_store(store)
    named = target(opened, what) if what else None
    if named and named.kind != "study":
        _show_one(opened, named, as_json=as_json)
        return
    while True:
        views = _views(opened, named)
        text = json.dumps([table(opened, view) for view in views], indent=None if watch else 1)
        clear = CLEAR if watch and sys.stdout.isatty() and not as_json else ""
        typer.echo(clear + (text if as_json else "\n".join(_pages(opened, views))))
        if not watch or not any(view.is_open for view in views):
            return
        time.sleep(WATCH_SECONDS)


def _show_one(store: Store, named: Target, *, as_json: bool) -> None:
    facts = run_table(store, named.name) if named.kind == "run" else group_table(store, named.name)
    lines = run_page(facts) if named.kind == "run" else group_page(facts)
    typer.echo(json.dumps(facts, indent=1) if as_json else "\n".join(lines))


def _views(store: Store, named: Target | None) -> list[View]:
    studies = [store.study(named.name)] if named else list(store.studies().values())
    unplanned = store.unplanned()
    return [View(one, study_status(store, one), study_bytes(store, one), _unplanned(store, one, unplanned)) for one in studies]


def _unplanned(store: Store, study: Study, unplanned: set[str]) -> tuple[str, ...]:
    """Return those of the *unplanned* results that an earlier plan of *study* named."""
    plans = store.plans(study.name) if unplanned else []
    return tuple(sorted(unplanned & {rid for plan in plans for rid in plan.rids}))


def _pages(store: Store, views: list[View]) -> Iterator[str]:
    yield f"store: {store.root.absolute()}"
    if not views:
        yield "nothing is planned: contilab plan MANIFEST plans a study"
    for view in views:
        yield ""
        yield from page(store, view)
    for fault in (*store.unreadable_studies(), *store.unreadable_groups()):
        yield f"\ndamaged: {fault.place}: {fault.problem}; {fault.hint}"
    for record in store.mismatches():
        yield f"\ntwo attempts disagree about run {short(record['rid'])}: {record['found']}"
    for path in store.foreign_results():
        yield f"\ndamaged: {path.absolute()} is no result of a run; nobody counts or removes it"
