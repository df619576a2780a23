"""The runner: claim, execute, publish, until nothing is left or it is told to stop. Running it again is resuming.

Any number of runners share a store; nothing but names in it says who does what. One that ends by any signal leaves nothing
that another could not take over.
"""

import time
import uuid
from contextlib import closing
from functools import cache

import structlog

from contilab.errors import EnvironmentFault, Fault, RefusedStart
from contilab.hardware.versions import versions
from contilab.runner.attempt import Surroundings, attempt
from contilab.runner.faults import fault_of
from contilab.runner.host import host
from contilab.runner.numerics import Acceptance
from contilab.runner.order import Most, Order, planned_store
from contilab.runner.plans import Plans
from contilab.runner.progress import Display
from contilab.runner.resources import Resources, lacking_device, resources
from contilab.runner.signals import StopFlag
from contilab.runner.tally import TIME_OVER, Tally, Verdict
from contilab.spec.sections import Execution
from contilab.store.claim import Claim
from contilab.store.claimer import Claimer
from contilab.store.collect import collect
from contilab.store.ending import is_environment
from contilab.store.layout import short
from contilab.store.store import Store

COLLECT_SECONDS = 3600.0  # between two collections; only what is a day old is removed, so more would find nothing


def run(order: Order, stop: StopFlag, shown: Display, most: Most | None = None) -> Verdict:
    """Do the work of *order* and return how it ended. *most*: what was told of memory meanwhile; of the order if not given.

    Raises RefusedStart before any claim: no plan, no usable store, no such device.
    """
    deadline = order.deadline()
    store = planned_store(order, stop, deadline)
    if store is None:
        return Verdict(stop.exit_code if stop.is_set() else TIME_OVER)
    runner = Runner(order, store, stop, shown, deadline, most=most or Most(order.most))
    try:
        verdict = runner.drain()
    except OSError as error:
        if not is_environment(error):
            raise
        code = (EnvironmentFault if runner.tally.attempts else RefusedStart).exit_code
        verdict = Verdict(code, (*runner.tally.told(), fault_of(error, str(order.root))))
    done, wanted = runner.plans.results()
    return verdict._replace(done=done, wanted=wanted)


class Runner:
    """One runner at work. Refuses a device that does not exist when it is made, so before any claim."""

    def __init__(self, order: Order, store: Store, stop: StopFlag, shown: Display, deadline: float, *, most: Most) -> None:
        self.tally = Tally()
        self._order = order
        self._store = store
        self._stop = stop
        self._shown = shown
        self._deadline = deadline
        self._most = most
        self._next_collection = 0.0
        self.plans = Plans(store, order.study)
        self._log = structlog.get_logger()
        self._acceptance = Acceptance(store.run, self._say)
        self._lacking_device = cache(lacking_device)
        self._choices = [self._resources(execution).choices for execution in set(self.plans.executions().values())]

    def drain(self) -> Verdict:
        """Claim and train until nothing is left, time is over, a stop is asked for, or the environment keeps failing."""
        uid = uuid.uuid4().hex
        self._store.add_runner(uid, host())
        with closing(Claimer(self._store, runner=uid, versions=versions())) as claimer:
            return self._drain(claimer, uid)

    def _drain(self, claimer: Claimer, uid: str) -> Verdict:
        self._log.info("runner_started", store=str(self._order.root.absolute()), runner=short(uid), **self.counts())
        for choices in {str(choices): choices for choices in self._choices}.values():
            self._log.info("resources", **{name: f"{choice['value']} ({choice['reason']})" for name, choice in choices.items()})
        while not self._stop.is_set():
            if self._is_over():
                return Verdict(TIME_OVER, self.tally.told())
            self._shown.runs(**self.counts())
            found = claimer.claim_next(study=self._order.study, accepts=self._accepts)
            if isinstance(found, Claim):
                self._work(found)
                if self.tally.is_hopeless:
                    return Verdict(EnvironmentFault.exit_code, self.tally.told())
            elif found.busy or (self._order.wait and time.monotonic() < self._deadline):
                self._collect()
                self._stop.wait(min(claimer.pause_seconds(), max(0.0, self._deadline - time.monotonic())))
            else:
                return self.tally.verdict(self.plans.faults(found))
        return Verdict(self._stop.exit_code)

    def _collect(self) -> None:
        """Remove what nobody needs, now and then while there is nothing else to do."""
        if time.monotonic() < self._next_collection:
            return
        self._next_collection = time.monotonic() + COLLECT_SECONDS
        try:
            found = collect(self._store)
        except OSError as error:  # not even the store's own time can be had; nobody's work depends on it
            self._log.warning("not_collected", error=str(error))
            return
        if found.works or found.temps:
            self._log.info("collected", **found._asdict())

    def _work(self, claim: Claim) -> None:
        self._stop.on_deadline = lambda: claim.end("released")
        with claim:
            runs = [self._store.run(rid) for rid in claim.rids]
            planned = self.plans.execution(claim.rids[0])
            around = Surroundings(
                self._resources(planned),
                self._shown,
                self._must_stop,
                self._stop.seconds_left,
                share=self._order.share,
                most=self._most.runs,
            )
            self.tally.attempts += 1
            attempt(claim, runs, around, self.tally)
        self._stop.on_deadline = lambda: None

    def _resources(self, planned: Execution) -> Resources:
        return resources(planned, device=self._order.device, share=self._order.share)

    def _accepts(self, rid: str) -> bool:
        return rid not in self.tally.skipped and self._acceptance.fits(rid) and self._has_device(rid)

    def _has_device(self, rid: str) -> bool:
        """Tell whether the device of *rid* is here: a plan that came after the start may ask for another one."""
        fault = self._lacking_device(self._order.device or self.plans.execution(rid).device)
        if fault:
            self._say(fault)
        return fault is None

    def _must_stop(self) -> bool:
        return self._stop.is_set() or self._is_over()

    def _is_over(self) -> bool:
        return time.monotonic() >= self._deadline and bool(self.plans.open())

    def counts(self) -> dict[str, int]:
        """Return how many of the wanted runs have a result."""
        wanted = len(self.plans.executions())
        return {"done": wanted - len(self.plans.open()), "wanted": wanted}

    def _say(self, fault: Fault) -> None:
        if self.tally.add_skipped(fault):
            self._log.warning("runs_skipped", place=fault.place, problem=fault.problem)
