"""Cancelling: a record that stops a group, whoever works on it, until `retry` resets it. Nothing is deleted."""

from typing import NamedTuple

from contilab.disk.put_new import put_new
from contilab.errors import UsageError
from contilab.spec.canonical import canonical
from contilab.store.block import block, blocks
from contilab.store.generation import highest
from contilab.store.layout import short
from contilab.store.store import Store
from contilab.store.target import groups_of, target


class Cancelled(NamedTuple):
    """What `cancel` did: *groups* it stopped, *needed* ones it left to other studies (with their names), *already* stopped."""

    groups: tuple[str, ...] = ()
    needed: dict[str, tuple[str, ...]] = {}  # noqa: RUF012  nobody changes it
    already: tuple[str, ...] = ()


def cancel(store: Store, text: str) -> Cancelled:
    """Stop the study or group that *text* names: its open groups are claimed no more, and their owners end at the next beat.

    A result that lands first stays. Groups that another study needs are left out, unless the group itself was named.
    UsageError for a run: what is claimed and stopped is its group.
    """
    kind, name = target(store, text)
    if kind == "run":
        raise _refusal(store, text, name)
    taken = store.taken()
    if kind == "study":
        gids = groups_of(store, set(store.study(name).rids) - taken)
        needed = _needed(gids, {other: set(study.rids) - taken for other, study in store.studies().items() if other != name})
    else:
        gids, needed = ({} if taken.issuperset(store.group(name)) else {name: store.group(name)}), {}
    recorded, free = blocks(store.layout), [gid for gid in gids if gid not in needed]
    already = [gid for gid in free if (found := block(store.layout, gid, recorded)) and found.state == "cancelled"]
    stopped = [gid for gid in free if gid not in already]
    for gid in stopped:
        n = highest(store.layout, gid)
        put_new(store.layout.cancel(gid, n), canonical({"gid": gid, "n": n}))
    return Cancelled(tuple(stopped), needed, tuple(already))


def _needed(gids: dict[str, tuple[str, ...]], others: dict[str, set[str]]) -> dict[str, tuple[str, ...]]:
    """Return those of *gids* with a run that one of the *others* (open runs by study) wants too, with the names of these."""
    needing = {gid: tuple(name for name, rids in others.items() if not rids.isdisjoint(gids[gid])) for gid in gids}
    return {gid: names for gid, names in needing.items() if names}


def _refusal(store: Store, text: str, rid: str) -> UsageError:
    gids = [short(gid) for gid in groups_of(store, {rid})]
    problem = "a run is not cancelled alone: it is trained in " + (f"group {', '.join(gids)}" if gids else "no group yet")
    return UsageError(text, problem, hint=f"contilab cancel {gids[0] if gids else 'GROUP'}")
