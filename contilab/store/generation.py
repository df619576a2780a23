"""Generations: the numbered claims on a group. The highest says who works on it, or how the last attempt ended."""

from typing import Any, NamedTuple

from contilab.disk.read import names, read_table
from contilab.store.layout import Layout, numbers


class Generation(NamedTuple):
    """Generation *n* of a group: its claim as written, and its end (None while there is no `.end`)."""

    n: int
    claim: dict[str, Any]
    end: dict[str, Any] | None

    @property
    def runner(self) -> str:
        """The uuid of the owner."""
        return str(self.claim.get("runner", ""))

    @property
    def boot_id(self) -> str:
        """The boot of the machine of the owner; empty if unknown."""
        return str(self.claim.get("boot_id", ""))

    @property
    def is_reset(self) -> bool:
        """Whether this is no attempt but a `retry`: what was counted and blocked before it counts no more."""
        return self.claim.get("kind") == "reset"

    @property
    def is_open(self) -> bool:
        """Whether an attempt may still be under way; only its beat can tell."""
        return not self.is_reset and self.end is None

    @property
    def end_kind(self) -> str:
        """How the attempt ended; empty while it has no `.end`."""
        return str((self.end or {}).get("kind", ""))

    @property
    def is_charged(self) -> bool:
        """Whether the attempt, if it is over, speaks against its group: training failed, or its process died without a word."""
        return self.is_open or (not self.is_reset and self.end_kind == "failed")

    @property
    def failure(self) -> str:
        """Class and text of the error that ended the attempt; empty if there was none."""
        end = self.end or {}
        return f"{end['class']}: {end.get('text', '')}" if end.get("class") else ""

    def start(self, what: str) -> int:
        """Return the "step" the attempt began at, or how many "results" its group had then."""
        start = self.claim.get("start")
        value = start.get(what) if isinstance(start, dict) else 0
        return value if isinstance(value, int) else 0


def highest(layout: Layout, gid: str) -> int:
    """Return the number of the last generation of *gid*, 0 if it was never claimed."""
    return max(numbers(names(layout.claims(gid)), ".json"), default=0)


def generation(layout: Layout, gid: str, n: int) -> Generation:
    """Read generation *n* of *gid*. What is unreadable stays empty: the names alone carry the protocol."""
    is_ended = layout.end(gid, n).name in names(layout.claims(gid))
    return Generation(n, read_table(layout.claim(gid, n)), read_table(layout.end(gid, n)) if is_ended else None)


def last_generation(layout: Layout, gid: str) -> Generation | None:
    """Read the last generation of *gid*; None if it was never claimed."""
    n = highest(layout, gid)
    return generation(layout, gid, n) if n else None


class History(NamedTuple):
    """The attempts at a group since its last reset, in order; *reset* is the number of that reset, 0 if there is none."""

    reset: int
    attempts: tuple[Generation, ...]

    def upto(self, n: int) -> "History":
        """Return it without attempts above *n*, which may be under way: nobody has found them stale."""
        return self._replace(attempts=tuple(one for one in self.attempts if one.n <= n))


def history(layout: Layout, gid: str) -> History:
    """Read the attempts at *gid* since its last reset."""
    found = names(layout.claims(gid))
    ended, attempts = set(numbers(found, ".end")), list[Generation]()
    for n in reversed(numbers(found, ".json")):
        end = read_table(layout.end(gid, n)) if n in ended else None
        one = Generation(n, read_table(layout.claim(gid, n)), end)
        if one.is_reset:
            return History(n, tuple(reversed(attempts)))
        attempts.append(one)
    return History(0, tuple(reversed(attempts)))
