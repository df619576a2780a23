"""A bundle: one archive of a study for a paper, that can be checked without the store it came from and without network.

BUNDLE.json        what is inside: size and SHA-256 of every other file, the version of every metric, and SHA-256 of its own
                   text without that line
manifest.toml      the manifest
store/             the part of the store that the study needs: its plan, runs, results and derived metrics
report/            the report, whose tables `verify-bundle` computes again

It is a zip file whose bytes depend on its content only. Results that are damaged stay out and are named. Digests inside tell of
bytes that changed; who changes a bundle on purpose can make them anew, so a paper names the digest of the archive as well.
"""

import hashlib
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from contilab.disk.put_new import temp_beside
from contilab.disk.read import names
from contilab.disk.sync import make_dir, sync_dir
from contilab.errors import EnvironmentFault
from contilab.report.bundle_frame import new_entry
from contilab.report.bundle_versions import versions_of
from contilab.report.write import render
from contilab.spec.study import Study
from contilab.store.store import Store

FORMAT = "contilab.bundle/1"
INDEX, SEAL = "BUNDLE.json", "sha256"
MANIFEST = "manifest.toml"
STORE, REPORT = "store/", "report/"
INCOMPRESSIBLE = (".safetensors",)  # deflating float weights takes most of the time and saves a tenth


class Bundled(NamedTuple):
    """What was packed: the archive, its digest, and how many results; *left_out*: runs without a usable result."""

    path: Path
    sha256: str
    size: int
    results: int
    left_out: tuple[str, ...]


def write_bundle(store: Store, study: str, path: Path) -> Bundled:
    """Pack *study* into *path*, which is replaced in one step; EnvironmentFault if it cannot be written."""
    plan = store.study(study)
    rendered = render(store, study)
    read = {run.rid for run in rendered.runs if run.record}  # by the report: what lands later is in neither
    intact = [rid for rid in plan.rids if rid in read]
    temp = temp_beside(path)
    try:
        make_dir(path.parent)
        try:
            with zipfile.ZipFile(temp, "w") as archive:
                content = _content(store, plan, intact, rendered.files)
                files = {name: _add(archive, name, data) for name, data in content}
                index = _index(store, plan, files)
                _add(archive, INDEX, sealed({**index, "metrics": versions_of(rendered.runs)}))
            temp.replace(path)
        finally:
            temp.unlink(missing_ok=True)
        sync_dir(path.parent)
    except OSError as error:
        raise EnvironmentFault(
            str(path), f"it cannot be written: {error.strerror}", hint="name another file with --out"
        ) from error
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    left_out = tuple(run.name for run in rendered.runs if run.rid not in intact)
    return Bundled(path, digest, path.stat().st_size, len(intact), left_out)


def sealed(index: Mapping[str, Any]) -> bytes:
    """Return *index* as BUNDLE.json holds it: with the digest of its own text without that line."""
    plain = {name: value for name, value in index.items() if name != SEAL}
    return _text({**plain, SEAL: hashlib.sha256(_text(plain)).hexdigest()})


def _content(store: Store, plan: Study, intact: Iterable[str], report: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    yield MANIFEST, plan.manifest.encode()
    layout = store.layout
    files = [layout.format, layout.plan(plan.name, store.plan_number(plan.name)), *map(layout.run, plan.rids)]
    directories = [place / rid for rid in intact for place in (layout.results, layout.derived)]
    within = (directory / name for directory in directories for name in names(directory))
    for path in [*files, *filter(Path.is_file, within)]:  # folders that somebody left there are no part of a result
        yield STORE + path.relative_to(store.root).as_posix(), path.read_bytes()
    for name, data in report.items():
        yield REPORT + name, data


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> dict[str, Any]:
    """Add a file and return what the index says of it."""
    archive.writestr(new_entry(name, is_stored=name.endswith(INCOMPRESSIBLE)), data)
    return {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}


def _index(store: Store, plan: Study, files: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "study": plan.name,
        "plan": store.plan_number(plan.name),
        "contilab": version("contilab"),
        "files": files,
    }


def _text(index: Mapping[str, Any]) -> bytes:
    return (json.dumps(index, indent=1, sort_keys=True) + "\n").encode()
