"""Names in the store: the one module that knows them. Every name is at most 80 bytes; rid and gid are full SHA-256 in hex.

Reserved for records of later versions, so that no other meaning is given to them: `quarantine/`, `cancel/`, `damaged/`,
`derived/` and `ckpt-<step>` in a working directory.
"""

import re
from pathlib import Path
from typing import NamedTuple

from contilab.spec.study import NAME

STUDY_NAME = re.compile(NAME)
ADDRESS = re.compile(r"[0-9a-f]{64}")
DIRECTORIES = ("studies", "runs", "groups", "claims", "work", "results", "mismatch", "runners", "locks", "cache", "reports")


class Layout(NamedTuple):
    """Where everything lies below *root*."""

    root: Path

    @property
    def format(self) -> Path:
        """The format and the times that all runners agree on."""
        return self.root / "format.json"

    @property
    def directories(self) -> tuple[Path, ...]:
        """The directories of a new store."""
        return tuple(self.root / name for name in DIRECTORIES)

    @property
    def studies(self) -> Path:
        """One directory per study."""
        return self.root / "studies"

    @property
    def groups(self) -> Path:
        """One file per group."""
        return self.root / "groups"

    @property
    def results(self) -> Path:
        """One directory per result."""
        return self.root / "results"

    @property
    def mismatches(self) -> Path:
        """One file per pair of attempts that disagree."""
        return self.root / "mismatch"

    def plans(self, study: str) -> Path:
        """The plans of *study*, numbered from 1; the highest is current."""
        return self.studies / study

    def plan(self, study: str, k: int) -> Path:
        """The *k*-th plan of *study*."""
        return self.plans(study) / f"{k}.json"

    def run(self, rid: str) -> Path:
        """The specification of a run."""
        return self.root / "runs" / f"{rid}.json"

    def group(self, gid: str) -> Path:
        """The sorted addresses of the runs of a group."""
        return self.groups / f"{gid}.json"

    def claims(self, gid: str) -> Path:
        """The generations of a group."""
        return self.root / "claims" / gid

    def claim(self, gid: str, n: int) -> Path:
        """The record of generation *n*."""
        return self.claims(gid) / f"{n}.json"

    def end(self, gid: str, n: int) -> Path:
        """How generation *n* ended; written by its owner only."""
        return self.claims(gid) / f"{n}.end"

    def work(self, gid: str, n: int) -> Path:
        """The working directory of generation *n*; written by its owner only."""
        return self.root / "work" / gid / str(n)

    def beat(self, gid: str, n: int) -> Path:
        """The heartbeat of generation *n*."""
        return self.work(gid, n) / "beat"

    def out(self, gid: str, n: int) -> Path:
        """The results that generation *n* builds, one directory per run."""
        return self.work(gid, n) / "out"

    def late(self, gid: str, n: int) -> Path:
        """The results of generation *n* that came too late or disagree."""
        return self.work(gid, n) / "late"

    def result(self, rid: str) -> Path:
        """The result of a run; it exists once the run is done."""
        return self.results / rid

    def mismatch(self, rid: str, tag: str) -> Path:
        """The record of two attempts at *rid* that disagree; *tag* is 8 hex digits."""
        return self.mismatches / f"{rid}-{tag}.json"

    def runner(self, uuid: str) -> Path:
        """What people want to know of a runner."""
        return self.root / "runners" / f"{uuid}.json"

    def lock(self, gid: str) -> Path:
        """The lock of a group, held for moments."""
        return self.root / "locks" / f"{gid}.lock"

    def alive(self, gid: str, n: int) -> Path:
        """The lock that the owner of generation *n* holds while it lives."""
        return self.root / "locks" / f"{gid}.{n}.alive"

    def report(self, study: str) -> Path:
        """What `report` writes for *study*; derived, may be deleted."""
        return self.root / "reports" / study


def short(address: str) -> str:
    """Return the 12 digits that messages show of an address or uuid."""
    return address[:12]


def numbers(names: list[str], suffix: str) -> list[int]:
    """Return the sorted positive numbers k of the names `<k><suffix>`."""
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return sorted(int(stem) for stem in stems if re.fullmatch("[1-9][0-9]{0,8}", stem))


def addresses(names: list[str], suffix: str = "") -> list[str]:
    """Return the addresses a of the names `<a><suffix>`, in their order."""
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return [stem for stem in stems if ADDRESS.fullmatch(stem)]
