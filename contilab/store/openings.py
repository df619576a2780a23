"""Which groups are open: those with a run that a current plan wants and that has nothing under its result name."""

from contilab.store.store import Store


class Openings:
    """Looks for open groups again and again. Plans and groups never change, so each is read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._plans: dict[tuple[str, int], frozenset[str]] = {}
        self._groups: dict[str, tuple[str, ...]] = {}

    def open_groups(self, study: str | None = None) -> dict[str, tuple[str, ...]]:
        """Return the open runs of every open group; with *study*, only runs that its current plan wants."""
        wanted = self.wanted(study) - self._store.taken()
        for gid in self._store.group_ids():
            if gid not in self._groups:
                self._groups[gid] = self._store.group(gid)
        open_runs = {gid: tuple(rid for rid in rids if rid in wanted) for gid, rids in self._groups.items()}
        return {gid: rids for gid, rids in open_runs.items() if rids}

    def wanted(self, study: str | None = None) -> set[str]:
        """Return the runs that the current plan of *study*, or of any study, names."""
        names = self._store.study_names() if study is None else [study]
        return {rid for name in names for rid in self._plan(name)}

    def _plan(self, name: str) -> frozenset[str]:
        key = (name, self._store.plan_number(name))
        if key not in self._plans:
            self._plans[key] = frozenset(self._store.study(name).rids)
        return self._plans[key]
