"""Collection: what idle runners remove of work that nobody needs any more.

A working directory goes once all runs of its group have results, or a later generation holds a valid checkpoint at least as
new; temps and reserves go. All of it only when a day old by the store's own time: the file time of a file just written there,
so no two clocks are compared. An owner whose directory is gone is superseded, a writer whose temp is gone starts again.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from contilab.disk.put_new import TEMP, temp_beside
from contilab.disk.read import names
from contilab.disk.sync import write_synced
from contilab.errors import StoreError
from contilab.store.checkpoint import has_valid_above
from contilab.store.layout import addresses, numbers
from contilab.store.store import Store
from contilab.store.usage import tree_bytes

DAY_SECONDS = 86_400.0


class Collected(NamedTuple):
    """What `collect` removed: working directories, temps and reserves, and their bytes."""

    works: int = 0
    temps: int = 0
    bytes: int = 0


def collect(store: Store) -> Collected:
    """Remove what nobody needs and is a day old; what cannot be removed is left to others."""
    limit = _now(store.root) - DAY_SECONDS
    works = temps = freed = 0
    for path in _works(store, limit):
        if size := _remove(store, path):
            works, freed = works + 1, freed + size
    for path in _temps(store.root):
        if _newest(path) < limit and (gone := discard(path)) is not None:
            temps, freed = temps + 1, freed + gone
    return Collected(works, temps, freed)


def discard(path: Path) -> int | None:
    """Remove *path* by a rename first, so that nobody finds half of it; return its bytes, None if it was not ours to remove."""
    size = tree_bytes(path)
    temp = path if path.name.startswith(TEMP) else temp_beside(path)
    try:
        if temp != path:
            path.rename(temp)
        if temp.is_dir() and not temp.is_symlink():
            shutil.rmtree(temp, ignore_errors=True)  # on NFS, .nfs files of open ones stay for a while
        else:
            temp.unlink()
    except OSError:
        return None
    return size


def _now(root: Path) -> float:
    """Return the store's own time."""
    temp = temp_beside(root / "now")
    write_synced(temp, b"")
    try:
        return temp.stat().st_mtime
    finally:
        temp.unlink(missing_ok=True)


def _newest(path: Path) -> float:
    """Return the youngest file time at and below *path*; infinite if it cannot be read: then it is left alone."""
    try:
        below = [_newest(child) for child in path.iterdir()] if path.is_dir() and not path.is_symlink() else []
        return max(path.lstat().st_mtime, *below, 0.0)
    except OSError:
        return float("inf")


def _works(store: Store, limit: float) -> Iterator[Path]:
    """Yield the working directories older than *limit* that nobody needs; age first, since the rest reads whole files."""
    layout = store.layout
    for gid in addresses(names(layout.works)):
        old = [n for n in numbers(names(layout.works / gid), "") if _newest(layout.work(gid, n)) < limit]
        is_done = bool(old) and _is_done(store, gid)
        yield from (layout.work(gid, n) for n in old if is_done or has_valid_above(layout, gid, n))


def _is_done(store: Store, gid: str) -> bool:
    try:
        return all(map(store.has_result, store.group(gid)))
    except StoreError:  # not there, or not readable: then nobody knows
        return False


def _remove(store: Store, work: Path) -> int:
    """Remove a working directory, but for output that disagrees with a published result."""
    gid, n = work.parent.name, int(work.name)
    late = store.layout.late(gid, n)
    disagreeing = {name.partition("-")[0] for name in names(store.layout.mismatches)}.intersection(names(late))
    if not disagreeing:
        return discard(work) or 0
    kept = {late} | {late / rid for rid in disagreeing}
    return sum(discard(path) or 0 for path in (*_children(work), *_children(late)) if path not in kept)


def _children(path: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return list(path.iterdir())
    return []


def _temps(root: Path) -> Iterator[Path]:
    """Yield temps that killed processes left, wherever temps are made, and what killed runners held in reserve."""
    for pattern in (f"{TEMP}*", f"*/{TEMP}*", f"*/*/{TEMP}*", f"work/*/*/{TEMP}*", "runners/*.reserve"):
        yield from (path for path in root.glob(pattern) if os.path.lexists(path))
