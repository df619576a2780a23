"""Checking a bundle offline: every byte against its digest, every run against its address, every table computed again."""

import hashlib
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from contilab.disk.read import read_object
from contilab.errors import ContilabError, EnvironmentFault, InputError
from contilab.report.bundle import FORMAT, INDEX, MANIFEST, REPORT, STORE, sealed
from contilab.report.bundle_differences import columns, differences
from contilab.report.bundle_frame import frame_faults
from contilab.report.bundle_versions import versions
from contilab.report.selection import CRITERION
from contilab.report.write import report_of, tables
from contilab.store.store import open_store

UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, ValueError, ArithmeticError)

BY_CHOICE = ("comparisons.csv", "selection.json")  # of variants: they follow from the metric that chooses


class Verified(NamedTuple):
    """What was checked, by name, and *faults*: each in one sentence that begins with the file it is about.

    not_compared: metrics of the bundle that this version of contilab does not have, or has in another version, and tables that
    follow from them.
    """

    study: str
    made_by: str
    files: int
    tables: tuple[str, ...]
    faults: tuple[str, ...]
    not_compared: tuple[str, ...] = ()


def verify_bundle(path: Path) -> Verified:
    """Check the bundle at *path*; InputError if it is none, EnvironmentFault if there is no room to unpack it."""
    with _unpacking() as folder:
        try:
            with path.open("rb") as file, zipfile.ZipFile(file) as archive:
                index, faults = _checked(path, archive, file)
                if not faults:
                    _unpack(archive, index["files"], folder)
        except UNREADABLE as error:
            raise InputError(str(path), f"it is no bundle: {_words(error)}", hint="contilab bundle STUDY makes one") from error
        study = str(index.get("study"))
        found, not_compared = ({}, ()) if faults else _recomputed(study, folder, index.get("metrics"))
    recomputed = tuple(name for name in found if name.startswith(REPORT))
    all_faults = (*faults, *(fault for group in found.values() for fault in group))
    return Verified(study, str(index.get("contilab")), len(index["files"]), recomputed, all_faults, not_compared)


@contextmanager
def _unpacking() -> Iterator[Path]:
    """Give a folder for a while."""
    try:
        made = tempfile.TemporaryDirectory(prefix="contilab-")
    except OSError as error:
        raise _no_room("TMPDIR", error) from error
    with made as folder:
        yield Path(folder)


def _unpack(archive: zipfile.ZipFile, files: Iterable[str], folder: Path) -> None:
    try:
        for name in files:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(name))
    except OSError as error:
        raise _no_room(str(folder), error) from error


def _no_room(place: str, error: OSError) -> EnvironmentFault:
    problem = f"the bundle cannot be unpacked there: {_words(error)}"
    return EnvironmentFault(place, problem, hint="name a folder with more room by TMPDIR=DIR")


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)).lower()


def _checked(path: Path, archive: zipfile.ZipFile, file: IO[bytes]) -> tuple[dict[str, Any], list[str]]:
    """Return the index, and a fault for each byte of the archive that is not what was packed."""
    index, text = _index(path, archive)
    faults = [] if sealed(index) == text else [f"{INDEX}: it is not what was packed"]
    faults += _digests(archive, index["files"])
    if not faults:
        sizes = [size for facts in index["files"].values() if type(size := facts.get("size")) is int]
        changed = frame_faults(archive, file, max(sizes, default=0))  # by the index, whose digest fits: an entry may lie
        where = ((name, "its entry in") if name else (path.name, "the end of") for name in changed)
        faults = [f"{name}: {part} the archive was changed" for name, part in where]
    return index, faults


def _index(path: Path, archive: zipfile.ZipFile) -> tuple[dict[str, Any], bytes]:
    try:
        text = archive.read(INDEX)
        index = read_object(text)
    except KeyError as error:
        raise InputError(str(path), f"it is no bundle: it has no {INDEX}", hint="contilab bundle STUDY makes one") from error
    except UNREADABLE as error:
        raise InputError(str(path), f"{INDEX} cannot be read: {error}", hint="contilab bundle STUDY makes a new one") from error
    if not index:
        raise InputError(str(path), f"{INDEX} cannot be read: it is no table", hint="contilab bundle STUDY makes a new one")
    if index.get("format") != FORMAT or not isinstance(index.get("files"), dict):
        problem = f"{INDEX} says {index.get('format')!r}, this version reads {FORMAT!r}"
        raise InputError(str(path), problem, hint="use the version of contilab that made it")
    if not isinstance(index.get("metrics", {}), dict):
        problem = f"{INDEX} cannot be read: its metrics are no table"
        raise InputError(str(path), problem, hint="contilab bundle STUDY makes a new one")
    return index, text


def _digests(archive: zipfile.ZipFile, files: Mapping[str, Any]) -> list[str]:
    """Return a fault per file that is missing, added, twice there, or not what was packed."""
    names = [entry.filename for entry in archive.infolist() if entry.filename != INDEX]
    faults = [f"{name}: it is missing" for name in sorted(files.keys() - set(names))]
    faults += [f"{name}: it was added" for name in sorted(set(names) - files.keys())]
    faults += [f"{name}: it is there twice" for name in sorted(set(names)) if names.count(name) > 1]
    faults += [f"{name}: it leaves the folder of the bundle" for name in sorted(files) if not _is_inside(name)]
    for name in sorted(files.keys() & set(names)):
        try:
            digest = hashlib.sha256(archive.read(name)).hexdigest()
        except UNREADABLE as error:
            faults.append(f"{name}: it cannot be read: {error}")
            continue
        if not isinstance(files[name], dict) or digest != files[name].get("sha256"):
            faults.append(f"{name}: it is not what was packed")
    return faults


def _recomputed(study: str, folder: Path, metrics: Mapping[str, Any] | None) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Return the faults of the unpacked store, of the manifest and of each table, by name; and what was not compared.

    metrics: the version of each, as the index has them.
    """
    try:
        store = open_store(folder / STORE)
        plan = store.study(study)
        for rid in plan.rids:
            store.run(rid)  # refused if its address is not that of its settings
        runs, made = report_of(store, study)
    except ContilabError as error:
        return {STORE: [f"{_name(fault.place, folder)}: {fault.problem}" for fault in error.faults]}, ()
    same = (folder / MANIFEST).read_bytes() == plan.manifest.encode()
    found = {MANIFEST: [] if same else [f"{MANIFEST}: it is not the manifest of the plan"]}
    measured = columns(_read(folder / REPORT / "results.csv"))
    known = versions(metrics, measured, runs)
    left_out = BY_CHOICE if CRITERION in known.apart else ()
    for name, data in tables(made, runs).items():
        if name not in left_out:
            told = differences(name, _read(folder / REPORT / name), data, known)
            found[REPORT + name] = [f"{REPORT}{name}: {text}" for text in told]
    return found, (*(name for name in measured if name in known.apart), *(REPORT + name for name in left_out))


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _name(place: str, folder: Path) -> str:
    """Return the file of the bundle that an error of the unpacked store speaks of."""
    path = Path(place)
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else STORE


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name and "\0" not in name
