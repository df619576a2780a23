"""A claim: one attempt at one group, owned by one runner.

It writes only below its own working directory, and publishes by renames onto names that are not there yet. So a late
process has nothing that it could overwrite, whatever it believes about itself.
"""

import contextlib
import errno
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from contilab.disk.failpoint import failpoint
from contilab.disk.lock import Lock
from contilab.disk.publish import publish_dir
from contilab.disk.put_new import put_new
from contilab.disk.sync import make_dir, write_synced
from contilab.spec.canonical import canonical, digest
from contilab.store.agreement import disagreement
from contilab.store.block import is_cancelled
from contilab.store.checkpoint import Checkpoint, Search, before, drop_old, newest, save, take_over
from contilab.store.ending import KINDS, Kind, environment, failed, is_environment, is_final
from contilab.store.generation import highest
from contilab.store.heartbeat import Heartbeat
from contilab.store.journal import Journal
from contilab.store.reserve import Reserve
from contilab.store.result import complete, manifest_of
from contilab.store.store import Store

LOCK_SECONDS = 5.0  # and one TTL at most; then publish without the lock: the renames are exclusive anyway

CHECKPOINT_FAULTS = 2  # in a row, each tried twice: then the disk is not only slow, and training on would gain nothing
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Published(NamedTuple):
    """What `publish` did: runs that landed, runs another attempt had published before, of them those that disagree.

    *is_superseded*: nothing was published, since a higher generation works on the group.
    """

    landed: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    mismatched: tuple[str, ...] = ()
    is_superseded: bool = False


class Claim:
    """Attempt *n* at the group *gid*, to train the runs *rids*. A context manager that lets go of it at its end."""

    def __init__(
        self, store: Store, gid: str, n: int, rids: tuple[str, ...], *, runner: str, alive: Lock, reserve: Reserve, past: Search
    ) -> None:
        self.gid = gid
        self.n = n
        self.rids = rids
        self.runner = runner
        self.damaged_checkpoints: tuple[str, ...] = past.damaged
        self._store = store
        self._layout = store.layout
        self._alive = alive
        self._reserve = reserve
        self._past: Search | None = past
        self._checkpoint_faults = 0
        self._open = set(rids)
        self._journal = Journal(self._layout.log(gid, n), self._layout.older_log(gid, n))
        self._heartbeat = Heartbeat(
            self._layout.beat(gid, n),
            runner=runner,
            ttl_s=store.ttl_s,
            beat_s=store.beat_s,
            is_followed=self._is_followed,
            is_cancelled=lambda: is_cancelled(self._layout, gid),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def work_dir(self) -> Path:
        """The directory that only this attempt writes to."""
        return self._layout.work(self.gid, self.n)

    @property
    def hardware_dir(self) -> Path:
        """The directory of the store for what is measured of machines."""
        return self._layout.hardware

    def begin(self) -> None:
        """Create the working directory and start to beat; on OSError the attempt ends as a fault of the machine."""
        with self._ending_as_env():
            make_dir(self.work_dir)
            self._heartbeat.start()

    def take_over(self) -> None:
        """Bring the checkpoint that was found before the claim into the own directory; OSError as with `begin`."""
        found = self._past.found if self._past else None
        if found:
            with self._ending_as_env():
                take_over(self._layout, self.gid, self.n, found)

    def checkpoint(self) -> Checkpoint | None:
        """Return the newest valid checkpoint of this group, None if there is none; *damaged* of it names what was passed over.

        `damaged_checkpoints` names them too where none was valid.
        """
        search, self._past = self._past or newest(self._layout, self.gid, self.n), None  # not kept: it may be large
        self.damaged_checkpoints = search.damaged
        return search.found

    def checkpoint_before(self, refused: Checkpoint) -> Checkpoint | None:
        """Return the newest valid checkpoint below the step of *refused*, which cannot be trained on; None if there is none."""
        search = before(self._layout, self.gid, self.n, refused)
        self.damaged_checkpoints = search.damaged
        return search.found

    def save_checkpoint(self, step: int, files: Mapping[str, bytes]) -> OSError | None:
        """Keep *files* (name to content) of the group at *step*; the two newest stay.

        A disk that fails is given a pause and one more try, with new files: a failed fsync may have dropped what it should
        have written, so it is never repeated. If that fails too the error is returned, and training may go on to the next
        checkpoint; a second one in a row raises it. Those written before stay as they are.
        """
        self._past = None
        try:
            who = {"gid": self.gid, "n": self.n, "step": step, "runner": self.runner}
            save(self._layout.checkpoint(self.gid, self.n, step), files, who)
            with contextlib.suppress(OSError):  # an old one that stays costs space only
                drop_old(self._layout, self.gid, self.n)
        except OSError as error:
            if not self.work_dir.is_dir():  # collected: the next look at `is_superseded` says so
                self._heartbeat.give_up()
                return error
            self._checkpoint_faults += 1
            if self._checkpoint_faults >= CHECKPOINT_FAULTS:
                raise
            return error
        self._checkpoint_faults = 0
        return None

    def out_dir(self, rid: str) -> Path:
        """Return the directory where the result of *rid* is built, made if missing."""
        path = self._layout.out(self.gid, self.n) / rid
        make_dir(path)
        return path

    def put_files(self, rid: str, files: Mapping[str, bytes]) -> None:
        """Write *files* (name to content) into the result of *rid* that is being built."""
        directory = self.out_dir(rid)
        for name, data in files.items():
            write_synced(directory / name, data)
            failpoint("output.half")

    def keep_line(self, line: bytes) -> None:
        """Add *line* to the log of this attempt, which `status` shows while it runs and if it dies without a word."""
        self._journal.append(line)

    def tell(self, *, step: int, steps: int, samples_per_second: float) -> None:
        """Let `status` know how far the group is."""
        self._heartbeat.tell(step=step, steps=steps, samples_per_second=round(samples_per_second, 1))

    def is_superseded(self) -> bool:
        """Whether another runner has taken the group over; asked at each step, it costs nothing unless a beat was missed."""
        return self._heartbeat.is_lost()

    def is_cancelled(self) -> bool:
        """Whether a user cancelled the group, seen at the last beat: time to write a checkpoint and end as cancelled."""
        return self._heartbeat.is_cancelled()

    def publish(
        self,
        states: Mapping[str, str],
        compared: frozenset[str],
        *,
        circumstances: Mapping[str, Any] | None = None,
        acc: Mapping[str, float | None] | None = None,
    ) -> Published:
        """Publish what lies in `out_dir` of each run of *states* (rid to "finished" or "diverged").

        *compared*: files that must be bitwise equal to another attempt's in equal *circumstances* (versions, device, precision,
        threads, execution, members); otherwise *acc*, the final accuracy per run, is compared. Writes `.end` when it was
        superseded or when no run of the claim is left.
        """
        lock = Lock(self._layout.lock(self.gid))
        lock.acquire(min(LOCK_SECONDS, self._store.ttl_s))
        try:
            if self._is_followed() or not self.work_dir.is_dir():
                return self._step_back()
            failpoint("publish.fenced")
            done = self._publish_each(states, compared, dict(circumstances or {}), dict(acc or {}))
        except FileNotFoundError:
            if self._is_followed() or not self.work_dir.is_dir():  # taken over and collected since the fence was checked
                return self._step_back()
            raise
        else:
            failpoint("publish.renamed")
            if not self._open:
                self.end("done")
            return done
        finally:
            lock.release()

    def fail(self, error: BaseException) -> None:
        """End the attempt with the exception that training raised: `env` for a fault of the environment, else `failed`.

        `failed-final` if no attempt could end otherwise: the group is then in quarantine at once.
        """
        if is_environment(error):
            self.end("env", **environment(error))
        else:
            self.end("failed-final" if is_final(error) else "failed", **failed(error))

    def end(self, kind: Kind, **facts: Any) -> None:
        """Write how the attempt ended and let go of it. The first end stays."""
        if kind not in KINDS:
            raise ValueError(f"an attempt ends as one of {', '.join(KINDS)}, not as {kind}")
        path, data = self._layout.end(self.gid, self.n), canonical({"kind": kind, "runner": self.runner, **facts})
        try:
            if kind == "env":
                self._reserve.release()  # first, so that the words fit
            try:
                put_new(path, data)
            except OSError as error:
                if error.errno not in _FULL or not self._reserve.release():
                    raise
                put_new(path, data)
            failpoint("end.written")
        finally:
            self.close()

    def close(self) -> None:
        """Stop to beat and free the lock; without an `.end` others go on after one TTL."""
        self._heartbeat.stop()
        self._alive.release()

    @contextlib.contextmanager
    def _ending_as_env(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            with contextlib.suppress(OSError):
                self.end("env", **environment(error))
            raise

    def _is_followed(self) -> bool:
        return highest(self._layout, self.gid) > self.n

    def _step_back(self) -> Published:
        out, late = self._layout.out(self.gid, self.n), self._layout.late(self.gid, self.n)
        with contextlib.suppress(FileNotFoundError):  # collected by whoever came later
            out.rename(late)
        self.end("superseded")
        return Published(is_superseded=True)

    def _publish_each(
        self, states: Mapping[str, str], compared: frozenset[str], circumstances: dict[str, Any], acc: dict[str, float | None]
    ) -> Published:
        landed, late, mismatched = [], [], []
        for rid, state in states.items():
            who = {"rid": rid, "gid": self.gid, "n": self.n, "runner": self.runner}
            manifest = {**who, "state": state, "circumstances": circumstances, "acc": acc.get(rid)}
            if publish_dir(self._layout.out(self.gid, self.n) / rid, self._layout.result(rid), manifest, compared=compared):
                landed.append(rid)
            else:
                late.append(rid)
                mismatched += [rid] if self._disagrees(rid) else []
            self._open.discard(rid)
            if len(landed) + len(late) == 1 < len(states):
                failpoint("publish.first_renamed")
        return Published(tuple(landed), tuple(late), tuple(mismatched))

    def _disagrees(self, rid: str) -> bool:
        """Compare an own result that came second; keep it only if it disagrees with the published one."""
        own = self._layout.out(self.gid, self.n) / rid
        kept, late = complete(self._layout.result(rid), rid), manifest_of(own)
        found = disagreement(kept, late) if kept and late else None
        if kept and late and found:
            record = {"rid": rid, "kept": kept.who, "late": late.who, "found": found}
            put_new(self._layout.mismatch(rid, digest(record)[:8]), canonical(record))
        if found or kept is None:
            make_dir(self._layout.late(self.gid, self.n))
            own.rename(self._layout.late(self.gid, self.n) / rid)
        else:
            shutil.rmtree(own)
        return found is not None
