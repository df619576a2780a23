"""What a runner remembers of its attempts, and the exit code it makes of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from contilab.errors import DataError, EnvironmentFault, Fault, RefusedStart
from contilab.runner.faults import fault_of
from contilab.store.ending import is_lost_device
from contilab.store.layout import short

FAULTS_IN_A_ROW = 3  # of the environment: then the next group would only fail too
ALL_DONE, SOME_FAILED, TIME_OVER = 0, 3, 6  # exit codes; the others are those of the exceptions


class Verdict(NamedTuple):
    """The exit code of a runner, what has to be said about it, and how many of the wanted runs have a result."""

    code: int
    faults: tuple[Fault, ...] = ()
    done: int = 0
    wanted: int = 0


@dataclass
class Tally:
    """Counts of one runner. *skipped*: runs that it does not try (again); *faults*: what to tell at the end.

    *failures*: the last failure of each group that training failed on. They are tried again, here or elsewhere, until they are
    done or in quarantine, so they are told of only where the runner ends before.
    """

    attempts: int = 0
    published: int = 0
    failed: int = 0
    environment: int = 0
    environment_in_a_row: int = 0
    is_device_lost: bool = False
    is_silenced: bool = False
    is_data_only: bool = True
    skipped: set[str] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)
    failures: dict[str, Fault] = field(default_factory=dict)

    def add_published(self, count: int) -> None:
        """Count *count* results."""
        self.published += count
        self.environment_in_a_row = 0
        self.is_data_only = False

    def add_failed(self, gid: str, error: BaseException) -> None:
        """Count a group that training failed on."""
        self.failed += 1
        self.environment_in_a_row = 0
        self.is_data_only = False
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        hint = f"contilab status {short(gid)} shows its traceback; contilab run tries it again"
        self.failures[gid] = Fault(f"group {short(gid)}", f"failed with {text}", hint)

    def add_environment(self, place: str, rids: tuple[str, ...], error: BaseException) -> None:
        """Count a group that the environment failed on. Missing data say nothing about the next group."""
        self.environment += 1
        self.skipped.update(rids)
        self.is_device_lost = self.is_device_lost or is_lost_device(error)
        if not isinstance(error, DataError):
            self.environment_in_a_row += 1
            self.is_data_only = False
        fault = fault_of(error, place)
        if fault not in self.faults:
            self.faults.append(fault)

    def add_silenced(self, place: str, error: OSError) -> None:
        """Count an attempt whose end could not be written: the store takes nothing any more."""
        self.is_silenced = True
        self.environment += 1
        self.is_data_only = False
        fault = fault_of(error, place)
        if fault not in self.faults:
            self.faults.append(fault)

    def add_skipped(self, fault: Fault) -> bool:
        """Remember why runs cannot be trained here; True if that was not said before."""
        is_new = fault not in self.faults
        if is_new:
            self.faults.append(fault)
        return is_new

    @property
    def is_hopeless(self) -> bool:
        """Whether the environment fails whatever is tried."""
        return self.is_device_lost or self.is_silenced or self.environment_in_a_row >= FAULTS_IN_A_ROW

    def told(self) -> tuple[Fault, ...]:
        """Return what to tell where work is left."""
        return (*self.faults, *self.failures.values())

    def verdict(self, left: Sequence[Fault]) -> Verdict:
        """Return how a runner ends that has nothing more to claim. *left*: what is wrong with wanted runs all the same."""
        faults = (*self.faults, *left)
        if self.environment:
            return Verdict((RefusedStart if self.is_data_only else EnvironmentFault).exit_code, faults)
        return Verdict(SOME_FAILED if faults else ALL_DONE, faults)
