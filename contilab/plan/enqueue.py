"""Plan a study: resolve, expand and check all of it, then write what is new into the store.

The order of writing makes a plan that is killed half way harmless: runs, then groups, then the study, which names them. Nothing
depends on time, host or chance, so planning twice writes nothing, and two planners at once write the same bytes.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from contilab.hardware.fingerprint import this_machine
from contilab.hardware.profile import Profiles, user_folder
from contilab.manifest.menu import Menu
from contilab.plan.estimate import Costs, Estimate, estimate
from contilab.plan.expand import Expanded
from contilab.plan.grouping import groups
from contilab.plan.speed import Answers
from contilab.plan.study import study
from contilab.spec.canonical import INTEGERS
from contilab.spec.study import Cell, Study
from contilab.store.layout import Layout
from contilab.store.store import Store, create_store, open_store


class Planned(NamedTuple):
    """What a plan has and what it adds (or would add, in a dry run).

    *runs*: of the study, each once. *done*: those with a result. *new_runs*, *new_groups*: not in the store before.
    *number*: of this plan among those of its study, 0 in a dry run. *data*: names of the data. *estimate*: of
    the runs without a result. *left_out*: cells whose scenario does not know their method, and settings of memory
    that fit other methods only.
    """

    name: str
    cells: int
    runs: int
    done: int
    new_runs: int
    new_groups: int
    number: int
    data: tuple[str, ...]
    estimate: Estimate
    left_out: tuple[str, ...] = ()


class _Known(NamedTuple):
    """What a store says of the runs of a study, by address."""

    planned: frozenset[str]
    taken: frozenset[str]  # something lies under the name of the result
    done: frozenset[str]
    groups: tuple[tuple[str, ...], ...]


def enqueue(
    root: Path,
    text: str,
    values: Sequence[str] = (),
    *,
    place: str = "manifest",
    ttl_s: float | None = None,
    is_dry_run: bool = False,
    menu: Menu | None = None,
) -> Planned:
    """Plan the manifest *text* with the command line's *values* into the store at *root*; a dry run writes nothing.

    *place*: the manifest's name in messages. *ttl_s*: of a new store. Raises ManifestError with every fault before anything is
    written, StoreError if the store cannot be used.
    """
    expanded, menu = study(text, values, place=place, menu=menu)
    store = _opened(root) if is_dry_run else create_store(root, ttl_s)
    known = _known(store, expanded)
    costs = Costs(expanded.sources, menu)
    grouped = {rid for group in known.groups for rid in group}
    new_groups = groups(expanded.cells, expanded.runs, known.taken | grouped, menu)
    number = 0
    if store and not is_dry_run:
        store.add_runs(expanded.runs.values())  # those that are there are compared, so that a damaged one is found now
        store.add_groups(new_groups)
        cells = tuple(_with_cost(cell, expanded, costs) for cell in expanded.cells)
        number = store.add_study(Study(name=expanded.name, manifest=text, values=tuple(values), cells=cells))
    return Planned(
        name=expanded.name,
        cells=len(expanded.cells),
        runs=len(expanded.runs),
        done=len(known.done),
        new_runs=len(expanded.runs) - len(known.planned),
        new_groups=len(new_groups),
        number=number,
        data=tuple(dict.fromkeys(source.data.name for source in expanded.sources.values())),
        estimate=_estimate(expanded, known, new_groups, costs, _answers(root)),
        left_out=expanded.left_out,
    )


def _opened(root: Path) -> Store | None:
    return open_store(root) if Layout(root).format.exists() else None


def _with_cost(cell: Cell, expanded: Expanded, costs: Costs) -> Cell:
    """Return *cell* with what training one of its runs takes, by which runners tell the long groups."""
    run = expanded.runs[next(iter(cell.runs.values()))]
    return replace(cell, flops=min(costs.of(run).flops, INTEGERS[-1]))


def _known(store: Store | None, expanded: Expanded) -> _Known:
    if store is None:
        return _Known(frozenset(), frozenset(), frozenset(), ())
    taken = frozenset(expanded.runs.keys() & store.taken())
    return _Known(
        planned=frozenset(rid for rid in expanded.runs if store.layout.run(rid).exists()),
        taken=taken,
        done=frozenset(rid for rid in taken if store.has_result(rid)),
        groups=tuple(store.groups().values()),
    )


def _answers(root: Path) -> Answers:
    """Return what bench measured on this machine."""
    return Profiles(Layout(root).hardware, user_folder(os.environ)).all(this_machine())


def _estimate(
    expanded: Expanded, known: _Known, new_groups: Sequence[tuple[str, ...]], costs: Costs, answers: Answers
) -> Estimate:
    sizes: dict[str, int] = {}
    for group in (*known.groups, *new_groups):
        for rid in group:
            sizes[rid] = max(len(group), sizes.get(rid, 0))
    counted = set(known.done)
    alike = []
    for cell in expanded.cells:
        open_rids = [rid for rid in cell.runs.values() if rid not in counted]
        counted.update(open_rids)
        alike.append([expanded.runs[rid] for rid in open_rids])
    return estimate(alike, sizes, costs, answers)
