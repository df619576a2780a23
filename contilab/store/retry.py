"""Retrying: a generation of kind reset ends what blocks a group and begins its count anew; unusable results go aside.

Both are one exclusive operation onto a new name, so of two that retry at once one wins and the other finds nothing to do.
"""

import os
from pathlib import Path
from typing import NamedTuple

from contilab.disk.put_new import put_new
from contilab.disk.sync import make_dir, sync_dir
from contilab.spec.canonical import canonical
from contilab.store.block import block, blocks
from contilab.store.generation import highest, history
from contilab.store.layout import Layout
from contilab.store.result import altered, complete
from contilab.store.store import Store
from contilab.store.target import groups_of, target

TRIES = 16  # of a number lost to others; each of them leaves the group released, or blocked once more


class Retried(NamedTuple):
    """What `retry` did: *groups* it released, *results* (runs) whose unusable results it moved aside."""

    groups: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


def retry(store: Store, text: str | None = None) -> Retried:
    """Release the study, group or run that *text* names; without it, everything in quarantine in the store.

    Raises UsageError if nothing has that name.
    """
    if text is None:
        return Retried(_released(store, store.group_ids(), frozenset({"quarantined"})))
    kind, name = target(store, text)
    if kind == "group":
        rids, gids = set(store.group(name)), [name]
    else:
        rids = set(store.study(name).rids) if kind == "study" else {name}
        gids = list(groups_of(store, rids))
    aside = tuple(rid for rid in sorted(rids) if _is_unusable(store.layout.result(rid), rid) and _put_aside(store.layout, rid))
    return Retried(_released(store, gids, frozenset({"quarantined", "cancelled"})), aside)


def _released(store: Store, gids: list[str], states: frozenset[str]) -> tuple[str, ...]:
    return tuple(gid for gid in gids if _reset(store.layout, gid, states))


def _reset(layout: Layout, gid: str, states: frozenset[str]) -> bool:
    """Write a reset above what blocks *gid*; False if nothing does, or another `retry` was first."""
    for _ in range(TRIES):
        n = highest(layout, gid)
        blocked = block(layout, gid, blocks(layout), history(layout, gid))
        if blocked is None or blocked.state not in states:
            return False
        record = {"kind": "reset", "n": n + 1, "nonce": os.urandom(16).hex()}
        if put_new(layout.claim(gid, n + 1), canonical(record)):
            return True
    return False


def _is_unusable(path: Path, rid: str) -> bool:
    """Whether at *path* lies something that is no result of *rid*, or not what was published."""
    manifest = complete(path, rid)
    return bool(altered(path, manifest)) if manifest else os.path.lexists(path)


def _put_aside(layout: Layout, rid: str) -> bool:
    """Move what lies under the name of *rid* away; False if another was first."""
    path, place = layout.result(rid), layout.aside(rid, os.urandom(4).hex())
    make_dir(place.parent)
    try:
        path.rename(place)
    except FileNotFoundError:
        return False
    if not _is_unusable(place, rid):  # another `retry` was first, and a runner has published since: put it back
        place.rename(path)
        return False
    sync_dir(place.parent)
    sync_dir(path.parent)
    return True
