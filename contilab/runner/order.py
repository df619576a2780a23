"""What a runner is asked to do, and the store it finds for it. Loads no torch: the parent of several workers needs it too."""

import math
import time
from pathlib import Path
from typing import NamedTuple

from contilab.errors import StoreError, UsageError
from contilab.runner.signals import StopFlag
from contilab.store.claimer import POLL_SECONDS
from contilab.store.probe import probe
from contilab.store.store import Store, open_store


class Order(NamedTuple):
    """What the user asked for. *study*: only this one. *device*: before what manifests say. *max_seconds*: then stop.

    *wait*: for plans and work, until told to stop. *share*: runners that share this machine's processors. *most*: runs to train
    at once, None: as many as seem to fit.
    """

    root: Path
    study: str | None = None
    device: str | None = None
    max_seconds: float | None = None
    wait: bool = False
    share: int = 1
    most: int | None = None

    def deadline(self) -> float:
        """Return when the time is over that begins now, on the monotonic clock."""
        return math.inf if self.max_seconds is None else time.monotonic() + self.max_seconds


class Most:
    """The number of runs that may be trained at once, None: as many as seem to fit. It only becomes smaller."""

    def __init__(self, runs: int | None = None) -> None:
        self.runs = runs

    def lower(self, runs: int) -> None:
        """Take *runs* if that is less."""
        self.runs = runs if self.runs is None else min(self.runs, runs)


def planned_store(order: Order, stop: StopFlag, deadline: float) -> Store | None:
    """Return the store once something is planned; None if a stop or the end of time came first. Only `wait` waits.

    Raises StoreError and UsageError where there is no plan, no such study or no usable store.
    """
    while True:
        try:
            store = planned(order)
            probe(order.root)
        except (StoreError, UsageError):
            if not order.wait:
                raise
        else:
            return store
        if stop.wait(min(POLL_SECONDS, max(0.0, deadline - time.monotonic()))) or time.monotonic() >= deadline:
            return None


def planned(order: Order) -> Store:
    """Return the store if something is planned in it; StoreError or UsageError if not."""
    store = open_store(order.root)
    if order.study is not None:
        store.study(order.study)  # UsageError names the studies that are there
    elif not (names := store.study_names()):
        raise StoreError(str(order.root), "nothing is planned in this store", hint="contilab plan MANIFEST plans a study")
    elif not store.studies():
        store.study(names[0])  # StoreError says why it cannot be read
    return store
