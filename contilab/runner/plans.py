"""What the current plans want: which runs, and with which engine settings each was planned."""

from contilab.spec.sections import Execution
from contilab.spec.study import Study
from contilab.store.store import Store


class Plans:
    """The current plans of a store (of *study* only, if given), read again when one was added."""

    def __init__(self, store: Store, study: str | None) -> None:
        self._store = store
        self._study = study
        self._numbers: dict[str, int] = {}
        self._executions: dict[str, Execution] = {}

    def executions(self) -> dict[str, Execution]:
        """Return the wanted runs with their engine settings; where several plans want a run, the first one's settings count."""
        numbers = {name: self._store.plan_number(name) for name in self._names()}
        if numbers != self._numbers:
            self._executions = _executions([self._store.study(name) for name in numbers])
            self._numbers = numbers
        return self._executions

    def open(self) -> set[str]:
        """Return the wanted runs that have nothing under their result name."""
        return set(self.executions()) - self._store.taken()

    def damaged(self) -> list[str]:
        """Return the wanted runs whose result is not complete."""
        taken = self._store.taken().intersection(self.executions())
        return sorted(rid for rid in taken if not self._store.has_result(rid))

    def _names(self) -> list[str]:
        return self._store.study_names() if self._study is None else [self._study]


def _executions(studies: list[Study]) -> dict[str, Execution]:
    found: dict[str, Execution] = {}
    for study in studies:
        for cell in study.cells:
            for rid in cell.runs.values():
                found.setdefault(rid, cell.execution)
    return found
