"""Whether the members of a group fit into memory together, found out before they are trained.

A kernel that runs out of memory kills whoever takes it, without an exception that could be caught; so what a group would take
is compared with what is left, and one that is too large is refused as `Crowded`, with how many parts it must be trained in. A
group whose generous bound is a small part of what is left is not measured at all.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from contilab.engine.choice.form import Form, Table
from contilab.engine.demand import Demand, bound, measured
from contilab.engine.setup import Setup
from contilab.hardware.memory import MIB, Free

FAR_BELOW = 0.25  # of what is left: a bound below it needs no measurement; chosen
FILLED = 0.8  # of what is left may be planned with; chosen, for what the C library holds in pieces and what others take
TRIAL_FORMS = 3  # that a short measurement holds at once, see choice/trial

FreeOn = Callable[[str], Free]  # what may be taken on a device


class Crowded(Exception):
    """Raised before training where memory does not suffice for all members: to be trained in so many *parts*, and why."""

    def __init__(self, parts: int, facts: dict[str, Any]) -> None:
        super().__init__(facts["reason"])
        self.parts = parts
        self.facts = facts


class _Planned(NamedTuple):
    demand: Demand
    fitting: int


class Room:
    """What may be taken here by the runs of one group, whole or in parts; every form is measured once."""

    def __init__(self, free_on: FreeOn) -> None:
        self._free_on = free_on
        self._planned: dict[Form, _Planned] = {}

    def is_ample(self, setup: Setup) -> bool:
        """Tell whether all members of *setup* surely fit while several forms are tried."""
        free = self._free_on(str(setup.device)).bytes
        return len(setup.runs) == 1 or TRIAL_FORMS * len(setup.runs) * bound(setup).member < FILLED * free

    def check(self, setup: Setup, form: Form, table: Table) -> None:
        """Raise Crowded unless all members of *setup* fit when *form* trains them.

        Of a compiled form the eager one is measured, since compiling takes longer than all of this.
        """
        members = len(setup.runs)
        if members == 1:
            return
        planned = self._planned.get(form)
        if planned is not None and members <= planned.fitting:
            return
        free = self._free_on(str(setup.device))
        if planned is None:
            if bound(setup).of(members) < FAR_BELOW * free.bytes:
                return
            demand = measured(setup, table.maker(form._replace(compile="off")), int(FILLED * free.bytes))
        else:
            demand = planned.demand
        fitting = demand.fitting(int(FILLED * free.bytes), members)
        parts = -(-members // fitting)
        self._planned[form] = _Planned(demand, -(-members // parts))
        if parts > 1:
            raise Crowded(parts, _facts(members, form, demand, free))


def _facts(members: int, form: Form, demand: Demand, free: Free) -> dict[str, Any]:
    """Return why *members* are too many, in words and numbers."""
    how = "measured" if demand.is_measured else "by shapes"
    shared = max(demand.shared(members), demand.closing)
    each = max(demand.member, demand.state)
    told = f"{members} runs would take {demand.of(members) / MIB:,.0f} MiB in the form {form} ({how})"
    return {
        "reason": f"planned before training: {told}, of {free.reason} {FILLED:.0%} may be planned with",
        "bytes_per_member": each,
        "bytes_shared": shared,
        "bytes_free": free.bytes,
    }
