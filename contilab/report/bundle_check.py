"""Checking a bundle offline: every byte against its digest, every run against its address, every table computed again."""

import csv
import hashlib
import io
import json
import math
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from contilab.disk.read import read_object
from contilab.errors import ContilabError, InputError
from contilab.report.bundle import FORMAT, INDEX, MANIFEST, REPORT, STORE, sealed
from contilab.report.write import report_of, tables
from contilab.store.store import open_store

ROUNDING = 1e-9  # relative: another processor or numpy may sum in another order
WITH_RESULT = ("finished", "diverged")
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError)

Rows = list[dict[str, str]]


class Verified(NamedTuple):
    """What was checked, by name, and *faults*: each in one sentence that begins with the file it is about."""

    study: str
    made_by: str
    files: int
    tables: tuple[str, ...]
    faults: tuple[str, ...]


def verify_bundle(path: Path) -> Verified:
    """Check the bundle at *path*; InputError if it is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _verified(path, archive)
    except (OSError, zipfile.BadZipFile) as error:
        reason = (error.strerror if isinstance(error, OSError) and error.strerror else str(error)).lower()
        raise InputError(str(path), f"it is no bundle: {reason}", hint="contilab bundle STUDY makes one") from error


def _verified(path: Path, archive: zipfile.ZipFile) -> Verified:
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
    faults = [] if sealed(index) == text else [f"{INDEX}: it is not what was packed"]
    faults += _digests(archive, index["files"])
    checked: dict[str, list[str]] = {}
    study = str(index.get("study"))
    if not faults:
        with tempfile.TemporaryDirectory(prefix="contilab-") as folder:
            checked = _recomputed(archive, index["files"], study, Path(folder))
    found = [*faults, *(fault for group in checked.values() for fault in group)]
    recomputed = tuple(name for name in checked if name.startswith(REPORT))
    return Verified(study, str(index.get("contilab")), len(index["files"]), recomputed, tuple(found))


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


def _recomputed(archive: zipfile.ZipFile, files: Iterable[str], study: str, folder: Path) -> dict[str, list[str]]:
    """Return the faults of the unpacked store, of the manifest and of each table, by name."""
    for name in files:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(archive.read(name))
    try:
        store = open_store(folder / STORE)
        plan = store.study(study)
        for rid in plan.rids:
            store.run(rid)  # refused if its address is not that of its settings
        runs, made = report_of(store, study)
    except ContilabError as error:
        return {STORE: [f"{_name(fault.place, folder)}: {fault.problem}" for fault in error.faults]}
    found: dict[str, list[str]] = {}
    same = (folder / MANIFEST).read_bytes() == plan.manifest.encode()
    found[MANIFEST] = [] if same else [f"{MANIFEST}: it is not the manifest of the plan"]
    for name, data in tables(made, runs).items():
        path = folder / REPORT / name
        kept = path.read_bytes() if path.exists() else b""
        compare = _json_differences if name.endswith(".json") else _csv_differences
        found[REPORT + name] = [f"{REPORT}{name}: {text}" for text in compare(kept, data)]
    return found


def _name(place: str, folder: Path) -> str:
    """Return the file of the bundle that an error of the unpacked store speaks of."""
    path = Path(place)
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else STORE


def _csv_differences(kept: bytes, again: bytes) -> Iterator[str]:
    """Compare what both tables have; a later version may add columns, and runs without a result have no numbers."""
    old, new = _rows(kept), _rows(again)
    if len(old) != len(new):
        yield f"it has {len(old)} rows, computed again {len(new)}"
        return
    for place, (before, after) in enumerate(zip(old, new, strict=True), 2):
        if before.get("state", "finished") not in WITH_RESULT:
            continue
        for column in before.keys() & after.keys() - {"reason"}:
            if not _is_equal(before[column], after[column]):
                yield f"line {place}, {column}: it says {before[column]}, computed again {after[column]}"


def _json_differences(kept: bytes, again: bytes) -> Iterator[str]:
    old, new = (json.dumps(_rounded(json.loads(data or b"null")), sort_keys=True) for data in (kept, again))
    if old != new:
        yield "computed again it is another one"


def _rows(data: bytes) -> Rows:
    rows = csv.DictReader(io.StringIO(data.decode(errors="replace")))
    return [row for row in rows if "no result" not in row.get("reason", "")]


def _is_equal(before: str, after: str) -> bool:
    if before == after:
        return True
    try:
        return math.isclose(float(before), float(after), rel_tol=ROUNDING, abs_tol=ROUNDING)
    except ValueError:
        pair = _rounded(_parsed(before)), _rounded(_parsed(after))
        return pair[0] is not None and bool(pair[0] == pair[1])


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 9)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name and "\0" not in name
