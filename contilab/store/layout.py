"""Names in the store: the one module that knows them. Every name is at most 80 bytes; rid and gid are full SHA-256 in hex."""

import re
from pathlib import Path
from typing import NamedTuple

from contilab.spec.study import NAME

STUDY_NAME = re.compile(NAME)
ADDRESS = re.compile(r"[0-9a-f]{64}")
DIRECTORIES = (
    *("studies", "runs", "groups", "claims", "work", "results", "quarantine", "cancel", "mismatch", "damaged", "runners"),
    *("locks", "cache", "reports"),
)  # a store of an earlier release lacks some: whoever writes there makes them
MARK = re.compile(r"([0-9a-f]{64})\.(0|[1-9][0-9]{0,8})\.json")
METRIC = re.compile(r"[a-z][a-z0-9_]{0,39}")  # a name of one, which names its file
DERIVED = re.compile(rf"({METRIC.pattern})\.([1-9][0-9]{{0,5}})\.json")
STEP = re.compile("ckpt-(0|[1-9][0-9]{0,17})")


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
    def runs(self) -> Path:
        """One file per run."""
        return self.root / "runs"

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

    @property
    def works(self) -> Path:
        """One directory per group, with one per generation in it."""
        return self.root / "work"

    @property
    def derived(self) -> Path:
        """Metrics computed later, one directory per run; made with the first of them."""
        return self.root / "derived"

    @property
    def quarantines(self) -> Path:
        """One file per group that was stopped since it kept failing."""
        return self.root / "quarantine"

    @property
    def cancels(self) -> Path:
        """One file per group that a user cancelled."""
        return self.root / "cancel"

    @property
    def damaged(self) -> Path:
        """One directory per unusable result that `retry` moved aside."""
        return self.root / "damaged"

    def plans(self, study: str) -> Path:
        """The plans of *study*, numbered from 1; the highest is current."""
        return self.studies / study

    def plan(self, study: str, k: int) -> Path:
        """The *k*-th plan of *study*."""
        return self.plans(study) / f"{k}.json"

    def run(self, rid: str) -> Path:
        """The specification of a run."""
        return self.runs / f"{rid}.json"

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
        return self.works / gid / str(n)

    def beat(self, gid: str, n: int) -> Path:
        """The heartbeat of generation *n*."""
        return self.work(gid, n) / "beat"

    def out(self, gid: str, n: int) -> Path:
        """The results that generation *n* builds, one directory per run."""
        return self.work(gid, n) / "out"

    def late(self, gid: str, n: int) -> Path:
        """The results of generation *n* that came too late or disagree."""
        return self.work(gid, n) / "late"

    def checkpoint(self, gid: str, n: int, step: int) -> Path:
        """The checkpoint of generation *n* at *step* of the group."""
        return self.work(gid, n) / f"ckpt-{step}"

    def log(self, gid: str, n: int) -> Path:
        """The log of generation *n*."""
        return self.work(gid, n) / "log.jsonl"

    def older_log(self, gid: str, n: int) -> Path:
        """What was in the log of generation *n* before, once that has become long."""
        return self.work(gid, n) / "log.older.jsonl"

    def result(self, rid: str) -> Path:
        """The result of a run; it exists once the run is done."""
        return self.results / rid

    def derived_metric(self, rid: str, metric: str, version: int) -> Path:
        """The value of *metric* for *rid*, computed later by *version* of its formula."""
        return self.derived / rid / f"{metric}.{version}.json"

    def mismatch(self, rid: str, tag: str) -> Path:
        """The record of two attempts at *rid* that disagree; *tag* is 8 hex digits."""
        return self.mismatches / f"{rid}-{tag}.json"

    def quarantine(self, gid: str, n: int) -> Path:
        """The record that a group was stopped after generation *n*, with the reason."""
        return self.quarantines / f"{gid}.{n}.json"

    def cancel(self, gid: str, n: int) -> Path:
        """The record that a group was cancelled after generation *n*; 0: before any."""
        return self.cancels / f"{gid}.{n}.json"

    def aside(self, rid: str, tag: str) -> Path:
        """Where an unusable result of *rid* is moved; *tag* is 8 hex digits."""
        return self.damaged / f"{rid}-{tag}"

    def runner(self, uuid: str) -> Path:
        """What people want to know of a runner."""
        return self.root / "runners" / f"{uuid}.json"

    def reserve(self, uuid: str) -> Path:
        """The space that a runner holds back, for its last words on a full disk."""
        return self.root / "runners" / f"{uuid}.reserve"

    def lock(self, gid: str) -> Path:
        """The lock of a group, held for moments."""
        return self.root / "locks" / f"{gid}.lock"

    def alive(self, gid: str, n: int) -> Path:
        """The lock that the owner of generation *n* holds while it lives."""
        return self.root / "locks" / f"{gid}.{n}.alive"

    @property
    def hardware(self) -> Path:
        """What was measured of machines, one file per machine, version of torch and shape of the work."""
        return self.root / "cache" / "hardware"

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


def marks(names: list[str]) -> dict[str, int]:
    """Return the highest number n of the names `<gid>.<n>.json` by group, as in `quarantine/` and `cancel/`."""
    found: dict[str, int] = {}
    for name in names:
        if match := MARK.fullmatch(name):
            found[match[1]] = max(int(match[2]), found.get(match[1], 0))
    return found


def versions(names: list[str]) -> dict[str, int]:
    """Return the highest version of each metric among the names `<metric>.<version>.json`, as in `derived/<rid>/`."""
    found: dict[str, int] = {}
    for name in names:
        if match := DERIVED.fullmatch(name):
            found[match[1]] = max(int(match[2]), found.get(match[1], 0))
    return found


def steps(names: list[str]) -> list[int]:
    """Return the sorted steps of the checkpoints among the *names* in a working directory."""
    return sorted(int(match[1]) for name in names if (match := STEP.fullmatch(name)))
