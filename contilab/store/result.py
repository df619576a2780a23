"""Results: complete or damaged, and what the manifest of a complete one says.

A result is complete when MANIFEST.json parses, names this run, and each listed file has the listed size. Any other name
under `results/` is damaged: never counted, never overwritten, named by `status` and `report`.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from contilab.disk.publish import read_manifest
from contilab.disk.read import read_file


class Manifest(NamedTuple):
    """What MANIFEST.json says.

    *state* is "finished" or "diverged". *files*: per name `sha256`, `size` (bytes) and `compared`. *circumstances*: what must
    be equal before compared files must be (versions, device, precision, threads, execution, members). *acc*: final accuracy.
    """

    rid: str
    gid: str
    n: int
    runner: str
    state: str
    files: dict[str, dict[str, Any]]
    circumstances: dict[str, Any] = {}  # noqa: RUF012  nobody changes a manifest
    acc: float | None = None

    @property
    def who(self) -> dict[str, Any]:
        """The attempt that made the result."""
        return {"gid": self.gid, "n": self.n, "runner": self.runner}


def manifest_of(directory: Path) -> Manifest | None:
    """Return the manifest of *directory* as it is written, or None if there is none that parses."""
    try:
        facts = json.loads(read_manifest(directory) or b"")
        return Manifest(**{name: facts[name] for name in Manifest._fields if name in facts})  # later versions may say more
    except (ValueError, TypeError, RecursionError):
        return None


def complete(directory: Path, rid: str) -> Manifest | None:
    """Return the manifest of *directory* if it is a complete result of *rid*, else None."""
    manifest = manifest_of(directory)
    if manifest is None or manifest.rid != rid:
        return None
    try:
        sizes_fit = all((directory / name).stat().st_size == facts["size"] for name, facts in manifest.files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # a file is missing, or the list of files is none
        return None
    return manifest if sizes_fit else None


def altered(directory: Path, manifest: Manifest) -> list[str]:
    """Return the names of the files of a complete result whose content is not what was published."""
    content = {name: read_file(directory / name) for name in manifest.files}
    return [name for name, data in content.items() if data is None or _sha256(data) != manifest.files[name].get("sha256")]


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
