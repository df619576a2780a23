"""The one exception tree of contilab, along the life of a job, and the exit code of each branch.

ContilabError                   1  a fault of contilab itself
├── InputError                  2  the user's input is wrong
│   ├── ManifestError           2  a manifest: every fault at once
│   └── UsageError              2  a name or value on the command line
├── RefusedStart                4  the environment does not allow a start
│   ├── StoreError              4  the store cannot be used
│   ├── DeviceError             4  no such device
│   └── DataError               4  data are missing or not what they must be (files just named to be imported: InputError)
├── EnvironmentFault            5  it failed on the way: no space left, device lost
├── CheckpointMismatch          1  a checkpoint is damaged, or not of these runs and this model
└── Stopped                   143  told to stop; what was done is saved
"""

from collections.abc import Sequence
from typing import NamedTuple


class Fault(NamedTuple):
    """One thing that is wrong: where (*place*), what (*problem*), and the way out (*hint*)."""

    place: str
    problem: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.place}: {self.problem}" if self.place else self.problem
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class ContilabError(Exception):
    """Raised when something cannot be done: one sentence, its place, and the way out."""

    exit_code = 1

    def __init__(self, place: str, problem: str, *, hint: str = "") -> None:
        self.faults: tuple[Fault, ...] = (Fault(place, problem, hint),)
        super().__init__(str(self.faults[0]))


class InputError(ContilabError):
    """Raised when the user's input is wrong."""

    exit_code = 2


class ManifestError(InputError):
    """Raised once per manifest, with all of its faults."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        Exception.__init__(self, "\n".join(str(fault) for fault in self.faults))


class UsageError(InputError):
    """Raised when a name or value on the command line means nothing."""


class RefusedStart(ContilabError):
    """Raised before any claim, when the environment does not allow a start."""

    exit_code = 4


class StoreError(RefusedStart):
    """Raised when the store cannot be used: not there, not writable, another format."""


class DeviceError(RefusedStart):
    """Raised when the device that was asked for does not exist."""


class DataError(RefusedStart):
    """Raised when data are missing, damaged or not the expected ones."""


class EnvironmentFault(ContilabError):
    """Raised when the environment fails on the way: no space left, device lost."""

    exit_code = 5


class CheckpointMismatch(ContilabError):
    """Raised when training cannot go on from a checkpoint: it is damaged, or of other runs or another model."""


class Stopped(ContilabError):
    """Raised inside training when the process was told to stop."""

    exit_code = 143
