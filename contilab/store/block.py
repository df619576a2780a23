"""What keeps a group from being claimed: a record in `cancel/` or `quarantine/`, or an end as failed-final.

Each is of a generation n and holds until a reset generation above n exists, which `retry` writes. Nothing is deleted for it.
"""

from typing import Literal, NamedTuple

from contilab.disk.read import names, read_table
from contilab.store.generation import History, history
from contilab.store.layout import Layout, marks


class Block(NamedTuple):
    """Why a group is not claimed, since generation *n*. *reason*: of a quarantine."""

    state: Literal["cancelled", "quarantined"]
    n: int
    reason: str = ""


class Blocks(NamedTuple):
    """The records of a moment: the highest generation with one by group. Two listings answer for all groups."""

    cancelled: dict[str, int]
    quarantined: dict[str, int]


def blocks(layout: Layout) -> Blocks:
    """List the records of all groups."""
    return Blocks(marks(names(layout.cancels)), marks(names(layout.quarantines)))


def is_cancelled(layout: Layout, gid: str) -> bool:
    """Whether a cancel record of *gid* holds; asked by its owner at each beat."""
    n = marks(names(layout.cancels)).get(gid)
    return n is not None and n >= history(layout, gid).reset


def block(layout: Layout, gid: str, recorded: Blocks, past: History | None = None) -> Block | None:
    """Return what blocks *gid*, a cancel first; None if nothing does. *past*: its attempts, if they were read already.

    Without *past*, attempts are read only where there is a record: a failed-final end is then seen by `final_block` alone.
    """
    cancelled, quarantined = recorded.cancelled.get(gid), recorded.quarantined.get(gid)
    if cancelled is None and quarantined is None:
        return final_block(past) if past else None
    past = past or history(layout, gid)
    if cancelled is not None and cancelled >= past.reset:
        return Block("cancelled", cancelled)
    if quarantined is not None and quarantined >= past.reset:
        record = read_table(layout.quarantine(gid, quarantined))
        return Block("quarantined", quarantined, _sentence(record))
    return final_block(past)


def final_block(past: History) -> Block | None:
    """Return the block that follows from an attempt that no other attempt could better; None if there is none."""
    for one in past.attempts:
        if one.end_kind == "failed-final":
            return Block("quarantined", one.n, one.failure)
    return None


def _sentence(record: dict[str, object]) -> str:
    parts = [str(record.get("reason", "the reason is not readable"))]
    if record.get("last_error"):
        parts.append(f"last error: {record['last_error']}")
    if record.get("is_one_machine_only"):
        parts.append("all on one machine")
    return "; ".join(parts)
