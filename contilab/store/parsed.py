"""What is written once and read by everybody: plans, groups, runs. A damaged file is named, and stops nothing but itself."""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from contilab.disk.read import read_bytes
from contilab.errors import Fault, StoreError
from contilab.spec.group import group_address
from contilab.spec.run import Run, run_from
from contilab.store.layout import ADDRESS

T = TypeVar("T")


def rids_of(value: Any, gid: str) -> tuple[str, ...]:
    """Return the runs that *value*, the content of the file of the group *gid*, lists; ValueError if they are not its runs."""
    if not (isinstance(value, list) and all(isinstance(rid, str) and ADDRESS.fullmatch(rid) for rid in value)):
        raise ValueError("it is no list of runs")
    if group_address(value) != gid:
        raise ValueError("it holds another group than its name says")
    return tuple(value)


def run_named(spec: Any, rid: str) -> Run:
    """Return the run that *spec*, the content of the file of *rid*, describes; ValueError if it is another one."""
    run = run_from(spec)
    if run.rid != rid:
        raise ValueError("it holds another run than its name says")
    return run


def readable(names: Iterable[str], read: Callable[[str], T]) -> dict[str, T]:
    """Return what *read* returns for each of *names* that does not raise StoreError."""
    found = {}
    for name in names:
        with contextlib.suppress(StoreError):
            found[name] = read(name)
    return found


def faults(names: Iterable[str], read: Callable[[str], object]) -> Iterator[Fault]:
    """Yield what *read* finds wrong with *names*."""
    for name in names:
        try:
            read(name)
        except StoreError as error:
            yield from error.faults


def parsed(path: Path, parse: Callable[[Any], T]) -> T:
    """Return what *parse* makes of the JSON in *path*; StoreError says why it is not what it must be."""
    try:
        data = read_bytes(path)
    except OSError as error:
        problem = f"the file cannot be read: {error.strerror}"
        raise StoreError(str(path), problem, hint="check the file and its rights, or move it away and plan again") from error
    if data is None:
        raise StoreError(str(path), "the file is not there", hint="plan the study again: contilab plan MANIFEST")
    try:
        return parse(json.loads(data))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        problem = f"this version cannot read the file: {error}"
        hint = "use the version of contilab that wrote it; if it is damaged, move it away and plan the study again"
        raise StoreError(str(path), problem, hint=hint) from error
