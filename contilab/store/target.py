"""What people name on the command line: a study, a group or a run, by name, by address, or by the first digits of one."""

import re
from typing import Literal, NamedTuple

from contilab.disk.read import names
from contilab.errors import UsageError
from contilab.store.layout import STUDY_NAME, addresses
from contilab.store.store import Store

DIGITS = re.compile("[0-9a-f]{6,64}")  # fewer are sooner a mistake than an address; messages show 12
CHOICES = 4  # shown of an ambiguous beginning

Kind = Literal["study", "group", "run"]


class Target(NamedTuple):
    """A thing of the store: its kind, and its name or full address."""

    kind: Kind
    name: str


def target(store: Store, text: str) -> Target:
    """Return what *text* names, a study first; UsageError if nothing, or more than one thing, has that beginning."""
    if STUDY_NAME.fullmatch(text) and store.plan_number(text):
        return Target("study", text)
    found = _with_beginning(store, text) if DIGITS.fullmatch(text) else []
    if len(found) == 1:
        return found[0]
    if found:
        some = ", ".join(f"{kind} {name[:16]}" for kind, name in found[:CHOICES])
        raise UsageError(text, f"{len(found)} things begin so: {some}", hint="give more digits")
    hint = f"it has the studies {', '.join(store.study_names()) or '(none)'}; contilab status --json names groups and runs"
    raise UsageError(text, "there is no such study, group or run in this store", hint=hint)


def groups_of(store: Store, rids: set[str]) -> dict[str, tuple[str, ...]]:
    """Return the groups that hold one of *rids*, with all their runs."""
    return {gid: members for gid, members in store.groups().items() if not rids.isdisjoint(members)}


def _with_beginning(store: Store, text: str) -> list[Target]:
    layout = store.layout
    runs = [Target("run", rid) for rid in addresses(names(layout.runs), ".json") if rid.startswith(text)]
    return [Target("group", gid) for gid in store.group_ids() if gid.startswith(text)] + runs
