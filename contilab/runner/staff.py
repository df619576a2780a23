"""How many workers share the work of one `contilab run`, and what each gets: processors or a GPU.

Two processes of one thread each train more than one of two: measured on two Xeon cores with eight MLPs 2x400 under vmap,
43,000 samples/s together against 23,000 to 38,000. So there is one worker per core, or per group where these are fewer, which
then share the cores; unless `bench` measured on this machine that one worker trains more of what is planned. A worker keeps
its threads: where groups run out, the cores of those that have ended stay idle until the last one ends. Groups are counted
whether or not others work on them: who else begins in this moment is not known.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from contilab.errors import StoreError, UsageError
from contilab.hardware.crew import workers
from contilab.hardware.fingerprint import this_machine
from contilab.hardware.gpus import gpus
from contilab.hardware.limits import memory_bytes
from contilab.hardware.profile import Profiles, user_folder
from contilab.hardware.threads import thread_budget
from contilab.runner.order import Order, planned
from contilab.runner.plans import Plans
from contilab.spec.sections import Execution
from contilab.store.openings import Openings
from contilab.store.parsed import readable
from contilab.store.store import Store

LOOKED_AT = 64  # groups at most, whose shapes are looked up among what bench measured; chosen: a study has a few shapes
WORKER_BYTES = 2**29  # chosen: torch and a perceptron with its data take about 350 MB per process


class Staff(NamedTuple):
    """A number of workers, why it is this one, and the value of CUDA_VISIBLE_DEVICES of each (none: as it is)."""

    workers: int
    reason: str
    devices: tuple[str, ...] = ()

    def environ(self, number: int) -> dict[str, str]:
        """Return what the environment of worker *number* has besides that of its parent."""
        return {"CUDA_VISIBLE_DEVICES": self.devices[number % len(self.devices)]} if self.devices else {}


def staff(order: Order, asked: int | None, *, find_gpus: Callable[[], tuple[str, ...]] = gpus) -> Staff:
    """Return the workers for what is open in the store; *asked*: by the user.

    Raises StoreError and UsageError where nothing is planned, unless the order is to wait for it.
    """
    if asked == 1:
        return Staff(1, "asked for")
    store = _store(order)
    plans = Plans(store, order.study) if store else None
    wanted = {plans.execution(rid) for rid in plans.open()} if plans else {Execution()}
    devices = find_gpus() if _may_use_gpus(order, wanted) else ()
    if asked:
        return Staff(asked, "asked for", devices)
    if devices:
        return Staff(len(devices), f"one per GPU, {len(devices)} found", devices if len(devices) > 1 else ())
    groups = Openings(store).open_groups(order.study) if store else []
    found = _per_core(order, wanted, None if order.wait or not store else len(groups))
    return found if store is None or found.workers < 2 else _as_measured(found, store, list(groups))


def _store(order: Order) -> Store | None:
    try:
        return planned(order)
    except (StoreError, UsageError):
        if not order.wait:
            raise
    return None  # work may come at any time


def _as_measured(found: Staff, store: Store, gids: Sequence[str]) -> Staff:
    """Return *found*, or one worker where bench measured on this machine that it trains the groups *gids* faster."""
    profiles = Profiles(store.layout.hardware, user_folder(os.environ))
    answers = profiles.all(this_machine())
    known = store.groups() if answers else {}
    members = {known[gid][0]: len(known[gid]) for gid in gids[:LOOKED_AT] if gid in known}
    runs = readable(members, store.run)  # one that cannot be read is told of by who would train it
    shapes = [(run.model.name, run.model.settings, run.train.batch, members[rid]) for rid, run in runs.items()]
    crew = workers(answers, shapes, found.workers)
    if crew is None:
        return found
    return found._replace(reason=f"{found.reason}; {crew.reason}") if crew.workers > 1 else Staff(1, crew.reason)


def _may_use_gpus(order: Order, wanted: set[Execution]) -> bool:
    """Whether devices may be dealt out: not where one is named by its number, or none is to be used."""
    asked = {order.device} if order.device else {execution.device for execution in wanted}
    return bool(asked & {"auto", "cuda"}) and not any(name.startswith("cuda:") for name in asked if name)


def _per_core(order: Order, wanted: set[Execution], groups: int | None, environ: Mapping[str, str] = os.environ) -> Staff:
    """Return one worker per core, or per as many as plans ask for; no more than *groups* are open, None if more may come."""
    if not os.access(sys.executable, os.X_OK):  # a uid that was taken on after the interpreter had been found
        return Staff(1, f"uid {os.getuid()} may not start {sys.executable} again")
    if environ.get("OMP_NUM_THREADS"):
        return Staff(1, "OMP_NUM_THREADS is set, so whoever started this shares out the processors")
    cores = thread_budget(order.share, environ=environ)
    threads = max((execution.threads for execution in wanted if execution.threads != "auto"), default=1)
    most = min(cores.count // threads, memory_bytes() // WORKER_BYTES)
    if most < 2:
        return Staff(1, cores.reason)
    if groups is not None and groups < 2:
        return Staff(1, "there is no second group, so one worker gets all processors")
    if groups is not None and groups < most:
        return Staff(groups, f"one per open group, fewer than the {most} workers that fit: {cores.reason}")
    each = "one per processor" if threads == 1 else f"one per {threads} processors, the threads that plans ask for"
    return Staff(most, f"{each}: {cores.reason}")
