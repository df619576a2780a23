"""Pruning: what earlier plans of a study left and no current plan of any study names is removed.

Claims stay: their numbers must never be given out twice, and they are small. So do specifications of runs.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from contilab.disk.read import names
from contilab.store.collect import discard
from contilab.store.layout import Layout
from contilab.store.openings import Openings
from contilab.store.store import Store
from contilab.store.target import groups_of
from contilab.store.usage import tree_bytes


class Pruned(NamedTuple):
    """What was, or with a dry run would be, removed: bytes, the runs whose results go, and groups."""

    bytes: int
    results: tuple[str, ...]
    groups: tuple[str, ...]


def prune(store: Store, study: str, *, is_dry_run: bool) -> Pruned:
    """Remove results, groups and work of runs that earlier plans of *study* named and no current plan of any study does.

    Raises UsageError if there is no such study, StoreError if a current plan cannot be read: nobody knows then what it wants.
    What another plan wants meanwhile is left alone.
    """
    store.study(study)
    openings, layout = Openings(store), store.layout
    old = {rid for plan in store.plans(study) for rid in plan.rids} - _wanted(openings)
    gids = {gid: members for gid, members in groups_of(store, old).items() if _wanted(openings).isdisjoint(members)}
    remove = tree_bytes if is_dry_run else _removed
    size, groups, results = 0, list[str](), list[str]()
    for gid, members in sorted(gids.items()):
        if _wanted(openings).isdisjoint(members):  # asked anew: a plan may have come
            size += remove(layout.group(gid)) + remove(layout.works / gid)
            groups.append(gid)
    for rid in sorted(old):
        if rid not in _wanted(openings):
            found = _of_run(layout, rid)
            size += _sum(remove, found)
            results += [rid] if layout.result(rid) in found else []
    return Pruned(size, tuple(results), tuple(groups))


def _wanted(openings: Openings) -> set[str]:
    wanted = openings.wanted()
    for error in openings.unreadable.values():
        raise error
    return wanted


def _removed(path: Path) -> int:
    return discard(path) or 0


def _sum(size: Callable[[Path], int], paths: list[Path]) -> int:
    return sum(size(path) for path in paths)


def _of_run(layout: Layout, rid: str) -> list[Path]:
    """Return what there is of the results of *rid*: published, moved aside, disagreeing, derived."""
    return [
        directory / name
        for directory in (layout.results, layout.damaged, layout.mismatches, layout.derived)
        for name in names(directory)
        if name.startswith(rid)
    ]
