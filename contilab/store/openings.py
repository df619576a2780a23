"""Which groups are open: those with a run that a current plan wants and that has nothing under its result name."""

from collections.abc import Iterable
from contextlib import suppress

from contilab.errors import StoreError
from contilab.store.store import Store


class Openings:
    """Looks for open groups again and again. Plans and groups never change, so each is read once.

    Those that cannot be read are passed over, so that one damaged file does not stop all other work; *unreadable* says why.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._plans: dict[tuple[str, int], frozenset[str]] = {}
        self._groups: dict[str, tuple[str, ...]] = {}
        self._flops: dict[str, int] = {}  # of runs
        self.unreadable: dict[str, StoreError] = {}  # studies, by name

    def open_groups(self, study: str | None = None) -> dict[str, tuple[str, ...]]:
        """Return the open runs of every open group; with *study*, only runs that its current plan wants."""
        wanted = self.wanted(study) - self._store.taken()
        for gid in self._store.group_ids():
            if gid not in self._groups:
                with suppress(StoreError):
                    self._groups[gid] = self._store.group(gid)
        open_runs = {gid: tuple(rid for rid in rids if rid in wanted) for gid, rids in self._groups.items()}
        return {gid: rids for gid, rids in open_runs.items() if rids}

    def length(self, rids: Iterable[str]) -> int:
        """Return how long training *rids*, runs of current plans, takes: one more for about twice the arithmetic."""
        return sum(self._flops.get(rid, 0) for rid in rids).bit_length()

    def members(self, gid: str) -> tuple[str, ...]:
        """Return all runs of a group that was open."""
        return self._groups[gid]

    def wanted(self, study: str | None = None) -> set[str]:
        """Return the runs that the current plan of *study*, or of any study, names; StoreError if that of *study* is none."""
        if study is not None:
            return set(self._plan(study))
        found = set[str]()
        self.unreadable = {}
        for name in self._store.study_names():
            try:
                found |= self._plan(name)
            except StoreError as error:
                self.unreadable[name] = error
        return found

    def _plan(self, name: str) -> frozenset[str]:
        key = (name, self._store.plan_number(name))
        if key not in self._plans:
            study = self._store.study(name)
            self._flops.update({rid: cell.flops for cell in study.cells if cell.flops for rid in cell.runs.values()})
            self._plans[key] = frozenset(study.rids)
        return self._plans[key]
