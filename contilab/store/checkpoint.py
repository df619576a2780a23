"""Checkpoints: one directory per step in the working directory of an attempt, complete by one rename, then never changed.

What is read is checked whole: the manifest must name group and step, and each file must have the SHA-256 it had when it was
written. A damaged one is passed over for the one before it, of any attempt at the group.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from contilab.disk.failpoint import failpoint
from contilab.disk.publish import publish_dir, read_manifest
from contilab.disk.put_new import temp_beside
from contilab.disk.read import names, read_bytes, read_object
from contilab.disk.sync import write_synced
from contilab.store.layout import Layout, numbers, steps

PAUSE_SECONDS = 1.0  # before a checkpoint that failed is written anew, once; chosen
TAKEN_FROM = "from"  # in the manifest of a copy: the generation that it was taken over from
KEPT = 2  # of an attempt's own: the newest, and the one before it should the newest be damaged


class Checkpoint(NamedTuple):
    """The files of a group at *step*, as generation *generation* left them. *damaged*: newer ones that were passed over."""

    step: int
    files: dict[str, bytes]
    generation: int
    damaged: tuple[str, ...] = ()


class Search(NamedTuple):
    """The newest valid checkpoint, if there is one, and the paths of damaged ones that would have been newer."""

    found: Checkpoint | None = None
    damaged: tuple[str, ...] = ()


def newest(layout: Layout, gid: str, upto: int, *, below: int | None = None) -> Search:
    """Return the valid checkpoint of *gid* with the highest step (below *below*), of any generation up to *upto*."""
    damaged: list[str] = []
    for step, n in _candidates(layout, gid, upto):
        if below is not None and step >= below:
            continue
        directory = layout.checkpoint(gid, n, step)
        files = _valid(directory, gid, step)
        if files is not None:
            return Search(Checkpoint(step, files, n, tuple(damaged)), tuple(damaged))
        if os.path.lexists(directory):  # else its owner has removed it meanwhile
            damaged.append(str(directory))
    return Search(None, tuple(damaged))


def last_written(layout: Layout, gid: str, upto: int) -> int:
    """Return the last generation up to *upto* that wrote a valid checkpoint and did not only take one over; 0 if none did."""
    latest_first = sorted(_candidates(layout, gid, upto), key=lambda one: -one[1])
    places = ((layout.checkpoint(gid, n, step), step, n) for step, n in latest_first)
    return next((n for place, step, n in places if _is_own(place) and _valid(place, gid, step) is not None), 0)


def has_valid_above(layout: Layout, gid: str, n: int) -> bool:
    """Whether a generation above *n* holds a valid checkpoint at least as new as the newest name in the directory of *n*."""
    own = max(steps(names(layout.work(gid, n))), default=-1)
    later = ((step, m) for step, m in _candidates(layout, gid) if m > n and step >= own)
    return any(_valid(layout.checkpoint(gid, m, step), gid, step) is not None for step, m in later)


def before(layout: Layout, gid: str, n: int, refused: Checkpoint) -> Search:
    """Return the newest valid checkpoint below the step of *refused*, which generation *n* cannot go on with.

    It is brought into the directory of *n*, and the copy of *refused* there goes: else it would hide all that come after it.
    """
    with suppress(OSError):  # not there, or it stays and costs space
        drop(layout.checkpoint(gid, n, refused.step))
    search = newest(layout, gid, n, below=refused.step)
    if search.found and search.found.generation != n:
        take_over(layout, gid, n, search.found)
    return search


def save(final: Path, files: Mapping[str, bytes], facts: Mapping[str, Any]) -> None:
    """Write *files* as the checkpoint *final*, after a pause once more if the disk fails, with new files.

    A failed fsync may have dropped what it should have written, so it is never repeated on one file. OSError leaves nothing
    of it behind, and those before it as they are. *facts*: who wrote it, with `gid` and `step`.
    """
    try:
        _save(final, files, facts)
    except OSError:
        if not final.parent.is_dir():
            raise
        time.sleep(PAUSE_SECONDS)
        _save(final, files, facts)


def _save(final: Path, files: Mapping[str, bytes], facts: Mapping[str, Any]) -> None:
    temp = temp_beside(final)
    temp.mkdir()
    try:
        for name, data in files.items():
            write_synced(temp / name, data)
            failpoint("checkpoint.half")
        publish_dir(temp, final, facts)
    finally:
        shutil.rmtree(temp, ignore_errors=True)  # gone if it landed


def take_over(layout: Layout, gid: str, n: int, found: Checkpoint) -> None:
    """Put the checkpoint of a predecessor into the directory of generation *n*, by hard links where they are allowed.

    The predecessor may only be paused, so nobody ever continues in its directory; but what lies there is never changed.
    """
    source, final = layout.checkpoint(gid, found.generation, found.step), layout.checkpoint(gid, n, found.step)
    temp = temp_beside(final)
    temp.mkdir()
    try:
        for name, data in found.files.items():
            _link_or_write(source / name, temp / name, data)
        publish_dir(temp, final, {"gid": gid, "n": n, "step": found.step, TAKEN_FROM: found.generation})
    finally:
        shutil.rmtree(temp, ignore_errors=True)
    failpoint("checkpoint.taken")


def drop_old(layout: Layout, gid: str, n: int) -> None:
    """Remove all but the newest two checkpoints of generation *n*."""
    for step in steps(names(layout.work(gid, n)))[:-KEPT]:
        drop(layout.checkpoint(gid, n, step))


def drop(path: Path) -> None:
    """Remove the checkpoint *path* by a rename first: nobody finds half of it."""
    temp = temp_beside(path)
    path.rename(temp)
    shutil.rmtree(temp, ignore_errors=True)


def _candidates(layout: Layout, gid: str, upto: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield (step, generation) of every name, newest first."""
    found = [(step, n) for n in numbers(names(layout.works / gid), "") for step in steps(names(layout.work(gid, n)))]
    yield from sorted((one for one in found if upto is None or one[1] <= upto), reverse=True)


def _is_own(directory: Path) -> bool:
    """Return whether the owner of *directory* wrote it, and did not take it over."""
    try:
        return TAKEN_FROM not in read_object(read_manifest(directory))
    except OSError:
        return False


def _valid(directory: Path, gid: str, step: int) -> dict[str, bytes] | None:
    """Return the files of a checkpoint if all are what was written, else None."""
    try:
        manifest = read_object(read_manifest(directory))
        if (manifest.get("gid"), manifest.get("step")) != (gid, step):
            return None
        hashes = {str(name): str(facts["sha256"]) for name, facts in manifest["files"].items()}
        files = {name: read_bytes(directory / name) or b"" for name in hashes}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # EIO included: what cannot be read cannot be used
        return None
    return files if all(hashlib.sha256(data).hexdigest() == hashes[name] for name, data in files.items()) else None


def _link_or_write(source: Path, target: Path, data: bytes) -> None:
    try:
        target.hardlink_to(source)
    except OSError:  # another user's file (protected_hardlinks), or removed by its owner since it was read
        write_synced(target, data)
