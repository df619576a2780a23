"""Whether this code has the numbers that a run was planned for. One that asks for others is skipped, and said once."""

from collections.abc import Callable

from contilab.catalog import entry
from contilab.errors import Fault, InputError, StoreError
from contilab.spec.numerics import numerics_tags
from contilab.spec.run import Run

_OWN_HINT = "start contilab run in the folder of that file, or put the folder into PYTHONPATH"


def mismatch(run: Run) -> Fault | None:
    """Return what differs between the tags of *run* and those of this code, or None."""
    names = {"benchmark": run.benchmark.name, "model": run.model.name, "optim": run.optim.name, "method": run.method.name}
    try:
        here = numerics_tags(entry, names)
    except KeyError as missing:
        return _fault(f"uses {missing}, which this version of contilab does not have")
    except InputError as error:  # a user's own model that is not here
        return Fault("run", f"was planned with {run.model.name}, but {error.faults[0].problem}", _OWN_HINT)
    differing = [
        f"{part} {run.numerics.get(part, 'without tag')} (here {here.get(part, 'none')})"
        for part in sorted({*here, *run.numerics})
        if run.numerics.get(part) != here.get(part)
    ]
    return _fault(f"was planned for other numerics: {', '.join(differing)}") if differing else None


def _fault(problem: str) -> Fault:
    return Fault("run", problem, "plan the study again with this version, or run it with the one that planned it")


class Acceptance:
    """Answers, once per run, whether it fits; *say* is called for each new reason why one does not."""

    def __init__(self, read: Callable[[str], Run], say: Callable[[Fault], None]) -> None:
        self._read = read
        self._say = say
        self._fits: dict[str, bool] = {}

    def fits(self, rid: str) -> bool:
        """Tell whether this code can read the run *rid* and has the numbers that it was planned for."""
        if rid not in self._fits:
            fault = self._why_not(rid)
            if fault:
                self._say(fault)
            self._fits[rid] = fault is None
        return self._fits[rid]

    def _why_not(self, rid: str) -> Fault | None:
        try:
            return mismatch(self._read(rid))
        except StoreError as error:  # missing, damaged, or of another version: no reason to leave all other runs alone
            return error.faults[0]
