"""Quarantine: a group that kept failing without progress is left alone, so that it cannot take its runners down for ever.

Attempts are counted from `claims/`, which are written before the work: a process that is killed cannot hide one. Other queues
miss exactly this (dramatiq#213, sidekiq#5300).
"""

from collections.abc import Callable
from typing import Any

from contilab.disk.put_new import put_new
from contilab.spec.canonical import canonical
from contilab.store.block import Block
from contilab.store.generation import Generation, History
from contilab.store.layout import Layout

CHARGED = 3  # attempts without progress
GENERATIONS = 50  # since the last reset, however they ended: a group that is only ever handed on does not end either


def charged(past: History, *, step: int, results: int, last_written: Callable[[], int]) -> tuple[Generation, ...]:
    """Return the attempts that speak against their group: charged, and nothing came after their start.

    *step*: of the newest valid checkpoint now. *results*: runs of the group that have one now. *last_written*: the last attempt
    that wrote a checkpoint. The last attempt must be over.

    The newest checkpoint may be one that attempts refuse. They begin with an older one or anew then, and what they get done may
    lie below it for long. So whatever an attempt wrote itself speaks for it and for those before it.
    """
    found = tuple(
        one for one in past.attempts if one.is_charged and one.start("step") >= step and one.start("results") >= results
    )
    if len(found) < CHARGED:
        return found  # and nobody reads checkpoints for it
    written = last_written()
    return tuple(one for one in found if one.n > written)


def verdict(past: History, *, step: int, results: int, last_written: Callable[[], int]) -> dict[str, Any] | None:
    """Return why a group goes into quarantine now, None if it may be tried again. Nothing in it depends on who asks."""
    against = charged(past, step=step, results=results, last_written=last_written)
    if len(against) < CHARGED and len(past.attempts) < GENERATIONS:
        return None
    if len(against) >= CHARGED:
        reason = f"{len(against)} attempts without progress"
    else:
        reason, against = f"{len(past.attempts)} attempts since the last reset", past.attempts
    last = against[-1]
    return {
        "reason": reason,
        "generations": [one.n for one in against],
        "last_error": last.failure or (last.end_kind or "the process died without a word (killed, out of memory, power)"),
        "is_one_machine_only": len({one.boot_id for one in against}) == 1 and bool(last.boot_id),
        "step": step,
    }


def quarantine(layout: Layout, gid: str, n: int, facts: dict[str, Any]) -> Block:
    """Write that *gid* is stopped after generation *n*; of several who find so at once, one record stays."""
    put_new(layout.quarantine(gid, n), canonical({"gid": gid, "n": n, **facts}))
    return Block("quarantined", n, str(facts["reason"]))
