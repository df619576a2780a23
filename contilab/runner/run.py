"""The runner: claim, execute, publish, until nothing is left or it is told to stop. Running it again is resuming.

Any number of runners share a store; nothing but names in it says who does what. One that ends by any signal leaves nothing
that another could not take over.
"""

import math
import time
import uuid
from functools import cache
from pathlib import Path
from typing import NamedTuple

import structlog

from contilab.errors import EnvironmentFault, Fault, RefusedStart, StoreError, UsageError
from contilab.hardware.versions import versions
from contilab.runner.attempt import Surroundings, attempt
from contilab.runner.faults import fault_of
from contilab.runner.host import host
from contilab.runner.numerics import Acceptance
from contilab.runner.plans import Plans
from contilab.runner.progress import Display
from contilab.runner.resources import Resources, lacking_device, resources
from contilab.runner.signals import StopFlag
from contilab.runner.tally import TIME_OVER, Tally, Verdict
from contilab.spec.sections import Execution
from contilab.store.claim import Claim
from contilab.store.claimer import POLL_SECONDS, Claimer
from contilab.store.ending import is_environment
from contilab.store.layout import short
from contilab.store.probe import probe
from contilab.store.store import Store, open_store


class Order(NamedTuple):
    """What the user asked for. *study*: only this one. *device*: before what manifests say. *max_seconds*: then stop.

    *wait*: for plans and work, until told to stop. *share*: runners that share this machine's processors.
    """

    root: Path
    study: str | None = None
    device: str | None = None
    max_seconds: float | None = None
    wait: bool = False
    share: int = 1


def run(order: Order, stop: StopFlag, shown: Display) -> Verdict:
    """Do the work of *order* and return how it ended.

    Raises RefusedStart before any claim: no plan, no usable store, no such device.
    """
    deadline = time.monotonic() + order.max_seconds if order.max_seconds is not None else math.inf
    store = _planned_store(order, stop, deadline)
    if store is None:
        return Verdict(stop.exit_code if stop.is_set() else TIME_OVER)
    runner = Runner(order, store, stop, shown, deadline)
    try:
        verdict = runner.drain()
    except OSError as error:
        if not is_environment(error):
            raise
        code = (EnvironmentFault if runner.tally.attempts else RefusedStart).exit_code
        verdict = Verdict(code, (*runner.tally.faults, fault_of(error, str(order.root))))
    done, wanted = runner.plans.results()
    return verdict._replace(done=done, wanted=wanted)


class Runner:
    """One runner at work. Refuses a device that does not exist when it is made, so before any claim."""

    def __init__(self, order: Order, store: Store, stop: StopFlag, shown: Display, deadline: float) -> None:
        self.tally = Tally()
        self._order = order
        self._store = store
        self._stop = stop
        self._shown = shown
        self._deadline = deadline
        self.plans = Plans(store, order.study)
        self._log = structlog.get_logger()
        self._acceptance = Acceptance(store.run, self._say)
        self._lacking_device = cache(lacking_device)
        self._choices = [self._resources(execution).choices for execution in set(self.plans.executions().values())]

    def drain(self) -> Verdict:
        """Claim and train until nothing is left, time is over, a stop is asked for, or the environment keeps failing."""
        uid = uuid.uuid4().hex
        self._store.add_runner(uid, host())
        claimer = Claimer(self._store, runner=uid, versions=versions())
        self._log.info("runner_started", store=str(self._order.root.absolute()), runner=short(uid), **self.counts())
        for choices in {str(choices): choices for choices in self._choices}.values():
            self._log.info("resources", **{name: f"{choice['value']} ({choice['reason']})" for name, choice in choices.items()})
        while not self._stop.is_set():
            if self._is_over():
                return Verdict(TIME_OVER, tuple(self.tally.faults))
            self._shown.runs(**self.counts())
            found = claimer.claim_next(study=self._order.study, accepts=self._accepts)
            if isinstance(found, Claim):
                self._work(found)
                if self.tally.is_hopeless:
                    return Verdict(EnvironmentFault.exit_code, tuple(self.tally.faults))
            elif found.busy or (self._order.wait and time.monotonic() < self._deadline):
                self._stop.wait(min(claimer.pause_seconds(), max(0.0, self._deadline - time.monotonic())))
            else:
                return self.tally.verdict(self.plans.faults())
        return Verdict(self._stop.exit_code)

    def _work(self, claim: Claim) -> None:
        self._stop.on_deadline = lambda: claim.end("released")
        with claim:
            runs = [self._store.run(rid) for rid in claim.rids]
            planned = self.plans.execution(claim.rids[0])
            around = Surroundings(self._resources(planned), self._shown, lambda: self._stop.is_set() or self._is_over())
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

    def _is_over(self) -> bool:
        return time.monotonic() >= self._deadline and bool(self.plans.open())

    def counts(self) -> dict[str, int]:
        """Return how many of the wanted runs have a result."""
        wanted = len(self.plans.executions())
        return {"done": wanted - len(self.plans.open()), "wanted": wanted}

    def _say(self, fault: Fault) -> None:
        if self.tally.add_skipped(fault):
            self._log.warning("runs_skipped", place=fault.place, problem=fault.problem)


def _planned_store(order: Order, stop: StopFlag, deadline: float) -> Store | None:
    """Return the store once something is planned; None if a stop or the end of time came first. Only `wait` waits."""
    while True:
        try:
            return _opened(order)
        except (StoreError, UsageError):
            if not order.wait:
                raise
        if stop.wait(min(POLL_SECONDS, max(0.0, deadline - time.monotonic()))) or time.monotonic() >= deadline:
            return None


def _opened(order: Order) -> Store:
    store = open_store(order.root)
    if order.study is not None:
        store.study(order.study)  # UsageError names the studies that are there
    elif not store.study_names():
        raise StoreError(str(order.root), "nothing is planned in this store", hint="contilab plan MANIFEST plans a study")
    probe(order.root)
    return store
