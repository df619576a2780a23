"""What the current plans want: which runs, and with which engine settings each was planned."""

from contilab.errors import Fault
from contilab.spec.sections import Execution
from contilab.spec.study import Study
from contilab.store.block import block, blocks
from contilab.store.claimer import Idle
from contilab.store.generation import history
from contilab.store.layout import short
from contilab.store.store import Store


class Plans:
    """The current plans of a store (of *study* only, if given), read again when one was added."""

    def __init__(self, store: Store, study: str | None) -> None:
        self._store = store
        self._study = study
        self._numbers: dict[str, int] = {}
        self._executions: dict[str, Execution] = {}
        self._ever: dict[str, Execution] = {}

    def executions(self) -> dict[str, Execution]:
        """Return the wanted runs with their engine settings; where several plans want a run, the first one's settings count."""
        numbers = {name: self._store.plan_number(name) for name in self._names()}
        if numbers != self._numbers:
            self._executions = _executions(self._studies())
            self._numbers = numbers
            self._ever |= self._executions
        return self._executions

    def execution(self, rid: str) -> Execution:
        """Return the engine settings of a run that was wanted a moment ago; the current plan may not name it any more."""
        return self._ever[rid] if rid in self._ever else self.executions().get(rid, Execution())

    def open(self) -> set[str]:
        """Return the wanted runs that have nothing under their result name."""
        return set(self.executions()) - self._store.taken()

    def results(self) -> tuple[int, int]:
        """Return how many of the wanted runs have a complete result, and how many there are."""
        return sum(map(self._store.has_result, self.executions())), len(self.executions())

    def faults(self, idle: Idle) -> list[Fault]:
        """Return why wanted runs have no result though nothing is left to claim: blocked, damaged, or without group."""
        taken = self._store.taken().intersection(self.executions())
        damaged = [self._store.result_dir(rid) for rid in sorted(taken) if not self._store.has_result(rid)]
        faults = [
            Fault(str(path), "the result is damaged", f"contilab retry {short(path.name)}, then run again") for path in damaged
        ]
        unreadable = self._store.unreadable_studies() if self._study is None else []
        return [*unreadable, *self._blocked(idle), *idle.damaged, *faults, *self._without_group()]

    def _without_group(self) -> list[Fault]:
        """Return that runs are in no group, if there are any, and which group files cannot be read: these may name them."""
        lost = self.open()
        if not lost or not (lost := lost.difference(*self._store.groups().values())):
            return []
        problem = f"{len(lost)} of the planned runs are in no group, so nobody trains them"
        missing = Fault(str(self._store.layout.groups), problem, "plan the study again: contilab plan MANIFEST")
        return [*self._store.unreadable_groups(), missing]

    def _blocked(self, idle: Idle) -> list[Fault]:
        layout, recorded, faults = self._store.layout, blocks(self._store.layout), []
        for gid in (*idle.quarantined, *idle.cancelled):
            if found := block(layout, gid, recorded, history(layout, gid)):
                why = f"is in quarantine: {found.reason}" if found.state == "quarantined" else "is cancelled"
                hint = f"contilab status {short(gid)} shows its attempts; contilab retry {short(gid)} releases it"
                faults.append(Fault(f"group {short(gid)}", why, hint))
        return faults

    def _studies(self) -> list[Study]:
        return list(self._store.studies().values()) if self._study is None else [self._store.study(self._study)]

    def _names(self) -> list[str]:
        return self._store.study_names() if self._study is None else [self._study]


def _executions(studies: list[Study]) -> dict[str, Execution]:
    found: dict[str, Execution] = {}
    for study in studies:
        for cell in study.cells:
            for rid in cell.runs.values():
                found.setdefault(rid, cell.execution)
    return found
