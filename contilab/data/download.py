"""Downloading one published file: from the first mirror that sends the right content, into the cache, whole or not at all.

Trust rests on the SHA-256 of the unpacked content, not on the connection, so a mirror without https is no danger.
"""

import hashlib
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from contilab.data.idx_file import SLACK_BYTES, KnownFile, unpack
from contilab.disk.put_new import put_new
from contilab.errors import DataError

TIMEOUT_SECONDS = 10  # chosen: of each connection and each read; a machine without network should learn it soon
HINT = "put the files into a folder and name that folder in CONTILAB_DATA (several are separated like PATH)"


def fetch(known: KnownFile, mirrors: Sequence[str], folder: Path, *, searched: Sequence[Path] = ()) -> Path:
    """Download *known* from one of *mirrors* into *folder* and return its path; DataError if no mirror has it.

    *searched*: where the file was looked for before, for the message.
    """
    failures = []
    for mirror in mirrors:
        url = f"{mirror}{known.name}.gz"
        try:
            return _put(folder / f"{known.name}.gz", _packed(url, known))
        except (OSError, HTTPException, ValueError) as error:
            failures.append(f"{url} ({error})")
    looked = f"not found in {', '.join(str(path) for path in searched)}" if searched else "not there"
    tried = f", nor could it be downloaded from {' or '.join(failures)}" if failures else ", and there is no mirror"
    raise DataError(known.name, looked + tried, hint=HINT)


def _packed(url: str, known: KnownFile) -> bytes:
    with urlopen(url, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - the addresses are constants of `published`
        packed: bytes = answer.read(known.size + SLACK_BYTES)
    content = unpack(packed, known.size)
    found = hashlib.sha256(content).hexdigest()
    if found != known.sha256:
        raise ValueError(f"sent {len(content)} bytes with SHA-256 {found}, expected {known.size} bytes with {known.sha256}")
    return packed


def _put(path: Path, packed: bytes) -> Path:
    try:
        put_new(path, packed)  # if another process was faster, its file is as good: it is checked when read
    except OSError as error:
        hint = "CONTILAB_CACHE names the folder for downloads"
        raise DataError(str(path), f"cannot be written: {error.strerror or error}", hint=hint) from error
    return path
