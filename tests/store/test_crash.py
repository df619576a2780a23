"""Claims about a machine that loses its power at any moment of an attempt.

Each call that changes the disk is recorded, and behind each a crash: what was not flushed by then is lost. Two disks are
rebuilt for each, since a file system may do either: one without the names that were not flushed, one with all names but without
the content that was not flushed (which is how files of 0 bytes come about).
"""

import hashlib
import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from contilab.store.claimer import Claimer, Idle
from contilab.store.store import open_store

PLACE = "disk"  # unless a test says otherwise


class Disk:
    """What of the directory *root* would be there after a crash, by inode: flushed content and flushed names."""

    def __init__(self, root):
        self.root = root
        self.content, self.entries = {}, {}
        self.crashes = []
        for path in [root, *root.rglob("*")]:
            self.flush(path)

    def flush(self, path):
        """Take over what *path* holds now, as fsync does."""
        inode = path.stat().st_ino
        if path.is_dir():
            self.entries[inode] = {child.name: child.stat().st_ino for child in path.iterdir()}
        else:
            self.content[inode] = path.read_bytes()

    def forget(self, path):
        """Forget an inode that is new: its number may have been another's."""
        inode = path.stat().st_ino
        self.entries.pop(inode, None)
        self.content.pop(inode, None)

    def crash(self):
        """Keep both disks that a crash at this moment may leave."""
        if not self.root.exists():
            return
        for disk in (dict(self._flushed(self.root.stat().st_ino, "")), dict(self._all_names())):
            if disk not in self.crashes[-4:]:
                self.crashes.append(disk)

    def _flushed(self, inode, place):
        for name, child in self.entries.get(inode, {}).items():
            path = f"{place}/{name}"
            if child in self.entries or child not in self.content:
                yield f"{path}/", b""
                yield from self._flushed(child, path)
            else:
                yield path, self.content[child]

    def _all_names(self):
        for path in self.root.rglob("*"):
            place = f"/{path.relative_to(self.root)}"
            if path.is_dir():
                yield f"{place}/", b""
            else:
                yield place, self.content.get(path.stat().st_ino, b"")


def rebuilt(crash, root):
    """Write a disk as it is after a crash."""
    for place, content in sorted(crash.items()):
        path = root / place.lstrip("/")
        if place.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return open_store(root)


@pytest.fixture
def recorded(monkeypatch):
    """Return a maker of recorded disks: each call that changes one is followed by a crash."""

    def record(root):
        disk = Disk(root)

        def after(owner, name, act):
            real = getattr(owner, name)

            def call(*arguments, **settings):
                result = real(*arguments, **settings)
                if threading.current_thread() is threading.main_thread():  # not the beats, which no recovery reads
                    act(*arguments)
                    disk.crash()
                return result

            monkeypatch.setattr(owner, name, call)

        def opened(path, mode="r", *_):
            if "x" in mode or "w" in mode:
                disk.forget(path)

        after(os, "fsync", lambda handle: disk.flush(Path(f"/proc/self/fd/{handle}").resolve()))
        after(Path, "open", opened)
        after(Path, "mkdir", lambda path, *_: disk.forget(path))
        for name in ("rename", "hardlink_to", "unlink"):
            after(Path, name, lambda *_: None)
        return disk

    return record


def work(store, runner):
    """Claim, take a checkpoint, build and publish, until nothing is open; return what is still busy."""
    claimer = Claimer(store, runner=runner, versions={})
    while not isinstance(claim := claimer.claim_next(), Idle):
        found = claim.checkpoint()
        claim.save_checkpoint(found.step + 1 if found else 1, {"state": b"state"})
        for rid in claim.rids:
            claim.put_files(rid, {"numbers": hashlib.sha256(rid.encode()).digest(), "log": runner.encode()})
        claim.publish(dict.fromkeys(claim.rids, "finished"), frozenset({"numbers"}))
    claimer.close()
    return claim


class TestCrash:
    """Whatever moment the power fails in, the next runner finishes."""

    def test_at_each_call(self, plan, recorded, check, tmp_path, monkeypatch):
        """From each disk that a crash may leave, recovery has all results, none torn, and claims without gaps."""
        planned = plan(members=2, ttl_s=20.0)
        disk = recorded(planned.root)
        work(planned.store, "first")
        monkeypatch.undo()
        wrongs, whole = [], planned.store
        for number, crash in enumerate(disk.crashes):
            root = tmp_path / "crashed"
            planned.store = rebuilt(crash, root)
            idle = work(planned.store, "second")
            found = check(planned, [], all_told=False) + [f"{gid} is busy" for gid in idle.busy]
            wrongs += [f"crash {number}: {wrong}" for wrong in found]
            shutil.rmtree(root)
        planned.store = whole

        assert len(disk.crashes) > 40
        assert wrongs == []

    def test_finds_a_missing_flush(self, plan, recorded):
        """The recording is no formality: without fsync a published result is on one of the disks with files of 0 bytes."""
        planned = plan(ttl_s=20.0)
        disk = recorded(planned.root)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", lambda _: None)
            work(planned.store, "first")
        place = f"/results/{planned.rids[0]}/numbers"

        assert any(crash.get(place) == b"" for crash in disk.crashes)

    def test_ends_where_nothing_crashed(self, plan, recorded):
        """The last disk is the whole store: what was acknowledged is flushed."""
        planned = plan(ttl_s=20.0)
        disk = recorded(planned.root)
        work(planned.store, "first")
        last = disk.crashes[-2:]

        for crash in last:
            assert json.loads(crash[f"/claims/{planned.gids[0]}/1.end"])["kind"] == "done"
            assert json.loads(crash[f"/results/{planned.rids[0]}/MANIFEST.json"])["rid"] == planned.rids[0]
