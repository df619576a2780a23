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
    def is_open(self) -> bool:
        """Whether an attempt may still be under way; only its beat can tell."""
        return self.claim.get("kind") != "reset" and self.end is None

    @property
    def has_failed(self) -> bool:
        """Whether the attempt ended with an exception from training."""
        return self.end is not None and self.end.get("kind") == "failed"


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


def has_failed_under(layout: Layout, gid: str, runner: str) -> bool:
    """Whether an attempt of *runner* at *gid* ended with an exception from training."""
    past = (generation(layout, gid, n) for n in numbers(names(layout.claims(gid)), ".end"))
    return any(one.has_failed and one.runner == runner for one in past)
