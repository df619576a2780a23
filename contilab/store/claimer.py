"""The walk of a runner over the open groups, until one can be claimed.

A group may be claimed if nobody claimed it, or the last attempt ended, or it is stale, and it is neither cancelled nor in
quarantine. The claim is a link of a finished file onto the next number: one of any number of claimants wins. The group lock
only saves the others the work of trying.
"""

import contextlib
import os
import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from contilab.disk.failpoint import failpoint
from contilab.disk.lock import Lock
from contilab.disk.put_new import put_new
from contilab.disk.read import MISPLACED, read_bytes
from contilab.errors import Fault
from contilab.spec.canonical import canonical
from contilab.store.block import Block, Blocks, block, blocks
from contilab.store.checkpoint import Search, last_written, newest
from contilab.store.claim import Claim
from contilab.store.clock import boot_id, boottime
from contilab.store.ending import environment
from contilab.store.generation import Generation, highest, history, last_generation
from contilab.store.mount import is_local
from contilab.store.observer import Observer
from contilab.store.openings import Openings
from contilab.store.pauses import Pauses
from contilab.store.quarantine import quarantine, verdict
from contilab.store.reserve import Reserve
from contilab.store.store import Store

POLL_SECONDS = 5.0
BUSY_TTLS = 2  # a paused process may sit in the locked section; after that its peers go on without the lock


class Idle(NamedTuple):
    """Nothing to claim now; with no busy group left either, the runner has come to its end.

    *busy*: open groups that others work on. *quarantined*, *cancelled*: open groups that nobody may claim until `retry`.
    *refused*: open groups none of whose runs this runner accepts. *damaged*: what is wrong with open groups in whose places
    something else lies.
    """

    busy: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    cancelled: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    damaged: tuple[Fault, ...] = ()


class Opening(NamedTuple):
    """What a claim continues: generation *last* (0: none), with *results* of the group there, and the newest checkpoint."""

    last: int
    results: int
    past: Search

    @property
    def step(self) -> int:
        """Where the next attempt starts."""
        return self.past.found.step if self.past.found else 0


class Claimer:
    """Claims groups for one *runner* (a random uuid per process); *versions* go into each claim."""

    def __init__(self, store: Store, *, runner: str, versions: Mapping[str, str]) -> None:
        self._store = store
        self._layout = store.layout
        self._runner = runner
        self._versions = dict(versions)
        self._openings = Openings(store)
        self._observer = Observer(store.ttl_s)
        self._reserve = Reserve(self._layout.reserve(runner))
        self._pauses = Pauses(min(POLL_SECONDS, store.ttl_s / 4))
        self._busy_since: dict[str, float] = {}
        self._damaged: dict[str, Fault] = {}
        self._seen_busy: set[str] = set()  # groups that others worked on when they were last looked at
        self._boot_id = boot_id()
        self._is_local = is_local(store.root)

    def pause_seconds(self) -> float:
        """Return how long to wait before the next walk: a moment after any change, later up to 5 s or a quarter of the TTL."""
        return self._pauses.seconds()

    def claim_next(self, *, study: str | None = None, accepts: Callable[[str], bool] = lambda _: True) -> Claim | Idle:
        """Claim an open group (of *study*, if given) with a run that *accepts* is true for, or tell why there is none.

        Raises OSError and StoreError where the store cannot be read or written.
        """
        recorded = blocks(self._layout)
        found: dict[str, str] = {}
        for gid, rids in self._walk(study):
            one = self._claim_or_damage(gid, tuple(rid for rid in rids if accepts(rid)), recorded)
            if isinstance(one, Claim):
                self._pauses.begin_anew()
                return one
            found[gid] = one
            (self._seen_busy.add if one == "busy" else self._seen_busy.discard)(gid)
        self._pauses.note({gid: (why, highest(self._layout, gid)) for gid, why in found.items()})
        damaged = tuple(self._damaged[gid] for gid, why in found.items() if why == "damaged")
        whys = ("busy", "quarantined", "cancelled", "refused")
        idle = {name: tuple(gid for gid, why in found.items() if why == name) for name in whys}
        return Idle(**idle, damaged=damaged)

    def close(self) -> None:
        """Give back the space held in reserve; the runner claims no more."""
        self._reserve.close()

    def _claim_or_damage(self, gid: str, rids: tuple[str, ...], recorded: Blocks) -> Claim | str:
        """Claim *gid* or return why not; what lies in the place of its files or directories stops nobody but itself."""
        if gid in self._damaged:
            return "damaged"
        try:
            return self._claim_or_why(gid, rids, recorded)
        except OSError as error:
            if error.errno not in MISPLACED:
                raise
            problem = f"something lies there that is not of the store: {error.strerror}"
            self._damaged[gid] = Fault(str(error.filename), problem, "move it away, then run again")
            return "damaged"

    def _claim_or_why(self, gid: str, rids: tuple[str, ...], recorded: Blocks) -> Claim | str:
        """Claim *gid*, or return which field of `Idle` it belongs to; empty if it is finished."""
        if blocked := block(self._layout, gid, recorded):
            return blocked.state
        if not rids:
            return "refused"
        last = last_generation(self._layout, gid)
        if last and not self._may_follow(gid, last):
            return "busy"
        opening = self._opening(gid, last, recorded)
        if isinstance(opening, Block):
            return opening.state
        self._reserve.fill()  # else an attempt that the disk fails could not say so, and would look like a crash of the group
        if claim := self._claim(gid, rids, opening):
            claim.take_over()
            return claim
        return "busy" if self._still_open(rids) else ""

    def _opening(self, gid: str, last: Generation | None, recorded: Blocks) -> Opening | Block:
        """Return what to continue, or what blocks it: too many attempts without progress put it into quarantine here."""
        results = len(self._store.taken().intersection(self._openings.members(gid)))
        if last is None:
            return Opening(0, results, Search())
        past = history(self._layout, gid).upto(last.n)
        if blocked := block(self._layout, gid, recorded, past):
            return blocked
        opening = Opening(last.n, results, newest(self._layout, gid, last.n))
        facts = verdict(past, step=opening.step, results=results, last_written=lambda: last_written(self._layout, gid, last.n))
        return quarantine(self._layout, gid, last.n, facts) if facts else opening

    def _walk(self, study: str | None) -> Sequence[tuple[str, tuple[str, ...]]]:
        """Return the open groups, the longest first, so that none is left at the end for which all others would wait.

        Those that others work on are the longest, and come last where this runner has seen them: to look costs a few reads.
        """
        groups = list(self._openings.open_groups(study).items())
        random.shuffle(groups)  # spreads runners over groups that take about as long
        return sorted(groups, key=lambda group: (group[0] in self._seen_busy, -self._openings.length(group[1])))

    def _may_follow(self, gid: str, last: Generation) -> bool:
        return not last.is_open or self._observer.is_stale(self._layout.beat(gid, last.n)) or self._is_dead(gid, last)

    def _is_dead(self, gid: str, last: Generation) -> bool:
        """Whether the owner was on this machine and is gone, since the lock that it held while it lived is free.

        So nobody waits one TTL for his own dead process. An error costs time only: the fence does not depend on it.
        """
        if not (self._is_local and self._boot_id and last.boot_id == self._boot_id and last.claim.get("holds_alive")):
            return False
        lock = Lock(self._layout.alive(gid, last.n))
        try:
            return lock.acquire() == "held"
        finally:
            lock.release()

    def _claim(self, gid: str, rids: tuple[str, ...], opening: Opening) -> Claim | None:
        lock = Lock(self._layout.lock(gid))
        if lock.acquire() != "busy":
            self._busy_since.pop(gid, None)
        elif not self._has_waited(gid):
            return None
        try:
            still = self._still_open(rids)  # else a group that was finished since the walk began is trained once more
            return self._link(gid, still, opening) if still and highest(self._layout, gid) == opening.last else None
        finally:
            lock.release()

    def _still_open(self, rids: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(rid for rid in rids if not os.path.lexists(self._layout.result(rid)))

    def _has_waited(self, gid: str) -> bool:
        since = self._busy_since.setdefault(gid, boottime())
        return boottime() - since > BUSY_TTLS * self._store.ttl_s

    def _link(self, gid: str, rids: tuple[str, ...], opening: Opening) -> Claim | None:
        n = opening.last + 1
        alive = Lock(self._layout.alive(gid, n))
        alive.acquire()  # before the claim is visible, else a peer finds it free and takes us for dead
        failpoint("claim.before")
        data = canonical({**self._record(n, opening), "holds_alive": alive.is_held})
        claim = Claim(self._store, gid, n, rids, runner=self._runner, alive=alive, reserve=self._reserve, past=opening.past)
        try:
            if not put_new(self._layout.claim(gid, n), data):
                claim.close()
                return None
        except OSError as error:
            self._give_up(claim, data, error)
            raise
        failpoint("claim.linked")
        claim.begin()
        failpoint("claim.beating")
        return claim

    def _give_up(self, claim: Claim, data: bytes, error: OSError) -> None:
        """End a claim that the disk refused; where it stands all the same, so that it is not taken for a crash of the group."""
        with contextlib.suppress(OSError):
            if read_bytes(self._layout.claim(claim.gid, claim.n)) == data:
                claim.end("env", **environment(error))
        claim.close()

    def _record(self, n: int, opening: Opening) -> dict[str, object]:
        return {
            "kind": "attempt",
            "n": n,
            "runner": self._runner,
            "nonce": os.urandom(16).hex(),
            "boot_id": self._boot_id,
            "versions": self._versions,
            "start": {"step": opening.step, "results": opening.results},
        }
