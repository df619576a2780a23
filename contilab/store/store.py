"""The store as a whole: what was planned and what came out. Claims have their own modules.

Nothing here is ever rewritten: every name is created once (see README.md beside this file).
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contilab.disk.put_new import put_all, put_new
from contilab.disk.read import names, read_bytes, read_table
from contilab.disk.sync import make_dir, sync_dir
from contilab.errors import Fault, StoreError, UsageError
from contilab.spec.canonical import canonical
from contilab.spec.group import group_address
from contilab.spec.run import Run
from contilab.spec.study import Study, study_from
from contilab.store.layout import STUDY_NAME, Layout, addresses, numbers
from contilab.store.parsed import faults, parsed, readable, rids_of, run_named
from contilab.store.probe import probe
from contilab.store.result import complete

FORMAT = "contilab.store/1"
TTL_SECONDS = 120  # network file attributes may be 60 s old, so at least 60 s and 4 beats
BEATS_PER_TTL = 8
TTL_MINIMUM_SECONDS = 1  # below, a busy disk is slower than a beat


@dataclass(frozen=True)
class Store:
    """An open store. *ttl_s*: seconds without a beat after which an attempt is given up; *beat_s*: between two beats."""

    root: Path
    ttl_s: float
    beat_s: float

    @property
    def layout(self) -> Layout:
        """Where everything lies."""
        return Layout(self.root)

    def reports_dir(self, study: str) -> Path:
        """Where `report` writes unless told otherwise."""
        return self.layout.report(study)

    def add_runs(self, runs: Iterable[Run]) -> None:
        """Write the specifications of *runs*; those that are there are left alone. StoreError if a name holds another one."""
        self._put({self.layout.run(run.rid): canonical(run.spec) for run in runs})

    def add_groups(self, groups: Iterable[Sequence[str]]) -> tuple[str, ...]:
        """Write *groups* (the addresses of their runs) and return their addresses."""
        named = {group_address(rids): canonical(sorted(rids)) for rids in groups}
        self._put({self.layout.group(gid): data for gid, data in named.items()})
        return tuple(named)

    def add_study(self, study: Study) -> int:
        """Write *study* as the next plan of its name and return its number k; an equal current plan is kept."""
        data = canonical(study.table)
        plans = self.layout.plans(study.name)
        make_dir(plans)
        sync_dir(plans.parent)  # the directory may be another planner's, made a moment ago
        while True:
            k = self.plan_number(study.name)
            if k and read_bytes(self.layout.plan(study.name, k)) == data:
                return k
            if put_new(self.layout.plan(study.name, k + 1), data):
                return k + 1

    def plan_number(self, study: str) -> int:
        """Return the number of the current plan of *study*, 0 if there is none."""
        return max(numbers(names(self.layout.plans(study)), ".json"), default=0)

    def study_names(self) -> list[str]:
        """Return the sorted names of all studies that have a plan."""
        return [name for name in names(self.layout.studies) if STUDY_NAME.fullmatch(name) and self.plan_number(name)]

    def study(self, name: str) -> Study:
        """Return the current plan of the study *name*; UsageError if there is none."""
        k = self.plan_number(name)
        if not k:
            problem = f'there is no study "{name}" in this store'
            hint = f"it has {', '.join(self.study_names()) or 'none yet: contilab plan MANIFEST writes one'}"
            raise UsageError(str(self.root), problem, hint=hint)
        return parsed(self.layout.plan(name, k), study_from)

    def plans(self, name: str) -> list[Study]:
        """Return every plan of the study *name*, the current one last; those that this version cannot read raise StoreError."""
        ks = numbers(names(self.layout.plans(name)), ".json")
        return [parsed(self.layout.plan(name, k), study_from) for k in ks]

    def studies(self) -> dict[str, Study]:
        """Return the current plan of every study by name, but for those that `unreadable_studies` names."""
        return readable(self.study_names(), self.study)

    def group_ids(self) -> list[str]:
        """Return the sorted addresses of all groups."""
        return addresses(names(self.layout.groups), ".json")

    def group(self, gid: str) -> tuple[str, ...]:
        """Return the addresses of the runs of a group, sorted; StoreError if the file is not what its name says."""
        return parsed(self.layout.group(gid), lambda value: rids_of(value, gid))

    def groups(self) -> dict[str, tuple[str, ...]]:
        """Return the runs of every group, but for those that `unreadable_groups` names."""
        return readable(self.group_ids(), self.group)

    def unreadable_studies(self) -> list[Fault]:
        """Return what is wrong with each current plan that cannot be read; all others are worked on."""
        return list(faults(self.study_names(), self.study))

    def unreadable_groups(self) -> list[Fault]:
        """Return what is wrong with each group that cannot be read; all others are worked on."""
        return list(faults(self.group_ids(), self.group))

    def run(self, rid: str) -> Run:
        """Return a planned run; StoreError if it is not there, not readable by this version or not what its name says."""
        return parsed(self.layout.run(rid), lambda spec: run_named(spec, rid))

    def taken(self) -> set[str]:
        """Return the runs that have something under their result name, complete or damaged: none of them is open."""
        return set(addresses(names(self.layout.results)))

    def has_result(self, rid: str) -> bool:
        """Whether *rid* has a complete result."""
        return complete(self.layout.result(rid), rid) is not None

    def results(self) -> set[str]:
        """Return the runs that have a complete result."""
        return {rid for rid in self.taken() if self.has_result(rid)}

    def result_dir(self, rid: str) -> Path:
        """Return the directory of the result of *rid*, whether it is there or not."""
        return self.layout.result(rid)

    def foreign_results(self) -> list[Path]:
        """Return what lies among the results and can be none, whatever is in it: nobody counts, moves or removes it."""
        found = names(self.layout.results)
        return [self.layout.results / name for name in sorted(set(found).difference(addresses(found)))]

    def unplanned(self) -> set[str]:
        """Return the runs with a result that no current plan names."""
        return self.taken().difference(*(study.rids for study in self.studies().values()))

    def mismatches(self) -> list[dict[str, Any]]:
        """Return the records of attempts that disagree about one run."""
        found = (read_table(self.layout.mismatches / name) for name in names(self.layout.mismatches))
        return [record for record in found if isinstance(record.get("rid"), str) and "found" in record]

    def add_runner(self, uuid: str, facts: Mapping[str, Any]) -> None:
        """Write down who a runner is (host, image, start), for people."""
        put_new(self.layout.runner(uuid), canonical(facts))

    def _put(self, files: Mapping[Path, bytes]) -> None:
        refused = put_all(files)
        if refused:
            problem = "the file exists with other content than its name says"
            raise StoreError(str(refused[0]), problem, hint="move it away and plan again")


def create_store(root: Path, ttl_s: float | None = None) -> Store:
    """Probe *root*, make it a store if it is none yet, and open it.

    The first call sets *ttl_s* (seconds, else 120). UsageError if another one is asked for later, StoreError if the place
    cannot hold a store.
    """
    if ttl_s is not None and not TTL_MINIMUM_SECONDS <= ttl_s < float("inf"):
        problem = f"a ttl of {ttl_s:g} s is not possible"
        raise UsageError("--ttl", problem, hint="give 60 s for a local disk, 120 s or more for a network file system")
    layout = Layout(root)
    if os.path.lexists(layout.format):
        open_store(root)  # a store of an unknown format is refused before anything is written into it
    else:
        _refuse_foreign(layout)
    probe(root)
    for directory in layout.directories:
        make_dir(directory)
    sync_dir(root)  # the directories may be another planner's, made a moment ago
    chosen = TTL_SECONDS if ttl_s is None else ttl_s
    put_new(layout.format, canonical({"format": FORMAT, "ttl_s": chosen, "beat_s": chosen / BEATS_PER_TTL}))
    store = open_store(root)
    if ttl_s is not None and ttl_s != store.ttl_s:
        problem = f"the store has a ttl of {store.ttl_s:g} s, asked for is {ttl_s:g} s"
        raise UsageError(str(root), problem, hint="leave --ttl out: the first plan of a store sets it for all runners")
    return store


def _refuse_foreign(layout: Layout) -> None:
    """Refuse a folder that holds anything but the beginnings of a store: a mistaken path must not be littered."""
    own = {directory.name for directory in layout.directories} | {"cache", "lost+found"}  # downloads; a new file system
    foreign = [name for name in names(layout.root) if name not in own]
    if foreign:
        problem = f"this is no store, and it holds other things: {', '.join(foreign[:3])}{', ...' if len(foreign) > 3 else ''}"
        raise StoreError(str(layout.root), problem, hint="name a new or empty folder with --store or CONTILAB_STORE")


def open_store(root: Path) -> Store:
    """Open the store at *root*; StoreError if there is none or its format is unknown."""
    path = Layout(root).format
    try:
        data = read_bytes(path)
    except OSError as error:
        problem = f"the store cannot be read: {os.strerror(error.errno or 0)}"
        raise StoreError(str(root), problem, hint="check the path and the rights of its directories") from error
    if data is None:
        hint = "contilab plan MANIFEST makes one; --store DIR or CONTILAB_STORE name another place"
        raise StoreError(str(root), "there is no store here", hint=hint)
    return _opened(root, path, data)


def _opened(root: Path, path: Path, data: bytes) -> Store:
    try:
        facts = json.loads(data)
        found = facts["format"]
        if found == FORMAT:
            _refuse_misplaced(Layout(root))
            return Store(root, _seconds(facts["ttl_s"]), _seconds(facts["beat_s"]))
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(str(path), "the file is damaged", hint=f"a store says {FORMAT} here") from error
    problem = f'the format is "{found}", this version knows "{FORMAT}"'
    raise StoreError(str(path), problem, hint="use the version of contilab that made this store, or another store")


def _refuse_misplaced(layout: Layout) -> None:
    """Refuse a store where something else lies in the place of one of its directories."""
    for directory in layout.directories:
        if os.path.lexists(directory) and not directory.is_dir():
            raise StoreError(str(directory), "this is no directory", hint="move it away, then try again")


def _seconds(value: Any) -> float:
    seconds = float(value)
    if not 0 < seconds < float("inf"):
        raise ValueError(f"{value} is no time")
    return seconds
