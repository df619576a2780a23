"""Downloading one published file: from the first mirror that sends the right content, into the cache, whole or not at all.

Trust rests on the SHA-256 of the content, not on the connection, so a mirror without https is no danger. What arrived before a
connection broke is kept under a name of its own, and the next try asks only for the rest. Proxies are those of the environment
(`https_proxy`, `no_proxy`), as everywhere in Python.
"""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from contilab.disk.sync import make_dir, sync_dir
from contilab.errors import DataError

TIMEOUT_SECONDS = 10  # chosen: of each connection and each read; a machine without network should learn it soon
TRIES = 5  # of one mirror, each going on where the one before was cut off; a try that brings nothing is the last
CHUNK = 2**18  # bytes
RANGE_IS_WRONG = 416

Progress = Callable[[str, int, int | None], None]  # name, bytes here, bytes in all if they are known


class Remote(NamedTuple):
    """A file that can be downloaded: its name, addresses, the most bytes it may have, and what checks it.

    check(path) raises ValueError, with expected and found, if the file is another one.
    """

    name: str
    urls: tuple[str, ...]
    limit: int
    check: Callable[[Path], None]


def silent(_name: str, _done: int, _total: int | None) -> None:
    """Show no progress."""


def sha256_is(sha256: str) -> Callable[[Path], None]:
    """Return the check that a file has this SHA-256."""

    def check(path: Path) -> None:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            raise ValueError(f"sent {path.stat().st_size} bytes with SHA-256 {found}, expected SHA-256 {sha256}")

    return check


def fetch(remote: Remote, folder: Path, *, hint: str, searched: Sequence[Path] = (), progress: Progress = silent) -> Path:
    """Download *remote* into *folder* and return its path; DataError with *hint* as the way out if no mirror has it.

    *searched*: where the file was looked for before, for the message.
    """
    failures = []
    for url in remote.urls:
        part = folder / f".part-{hashlib.sha256(url.encode()).hexdigest()[:12]}-{remote.name}"
        try:
            _complete(url, part, remote, progress)
        except (HTTPException, ValueError) as error:
            failures.append(f"{url} ({error})")
        except OSError as error:
            if isinstance(error.filename, str) and str(folder) in error.filename:
                raise _unwritable(folder, error) from error
            failures.append(f"{url} ({error})")
        else:
            return _put(part, folder / remote.name)
    looked = f"not found in {', '.join(str(path) for path in searched)}" if searched else "not there"
    tried = f", nor could it be downloaded from {' or '.join(failures)}" if failures else ", and there is no mirror"
    raise DataError(remote.name, looked + tried, hint=hint)


def _complete(url: str, part: Path, remote: Remote, progress: Progress) -> None:
    """Fill *part* with what *url* sends until it is whole and right; ValueError or OSError if it cannot be had."""
    was_begun = part.exists()
    _receive(url, part, remote, progress)
    try:
        remote.check(part)
    except ValueError:
        part.unlink(missing_ok=True)
        if not was_begun:
            raise
        _complete(url, part, remote, progress)  # from the beginning: what lay there was of another file


def _receive(url: str, part: Path, remote: Remote, progress: Progress) -> None:
    for _ in range(TRIES):
        before = part.stat().st_size if part.exists() else 0
        try:
            if _received(url, part, before, remote, progress):
                return
            problem = f"the answer ended after {part.stat().st_size} bytes"
        except HTTPError as error:
            if error.code != RANGE_IS_WRONG or not before:
                raise
            return  # all of it was there, or more than that: the check tells
        except TimeoutError:
            problem = "timed out"
        if not part.exists() or part.stat().st_size <= before:
            break
    raise ValueError(problem)


def _received(url: str, part: Path, before: int, remote: Remote, progress: Progress) -> bool:
    """Append to *part* what follows its first *before* bytes; return whether the answer was as long as it promised."""
    headers = {"Range": f"bytes={before}-", "Accept-Encoding": "identity"} if before else {}
    with urlopen(Request(url, headers=headers), timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - addresses are constants
        is_rest = before > 0 and answer.status == 206 and (answer.headers["Content-Range"] or "").startswith(f"bytes {before}-")
        promised = int(answer.headers["Content-Length"]) if (answer.headers["Content-Length"] or "").isdigit() else None
        start = before if is_rest else 0
        make_dir(part.parent)
        done = _copied(answer, part, start, remote, lambda here: progress(remote.name, here, promised and promised + start))
    return promised is None or done - start >= promised


def _copied(answer: HTTPResponse, part: Path, start: int, remote: Remote, tell: Callable[[int], None]) -> int:
    done = start
    with part.open("ab" if start else "wb") as file:
        while chunk := answer.read(CHUNK):
            done += len(chunk)
            if done > remote.limit:
                file.truncate(0)
                raise ValueError(f"sent more than expected: at most {remote.limit} bytes")
            file.write(chunk)
            tell(done)
    return done


def _put(part: Path, path: Path) -> Path:
    try:
        part.replace(path)
        sync_dir(path.parent)
    except OSError as error:
        raise _unwritable(path.parent, error) from error
    return path


def forget(path: Path) -> None:
    """Remove a download that is no longer needed."""
    with suppress(OSError):
        path.unlink()


def _unwritable(folder: Path, error: OSError) -> DataError:
    hint = "CONTILAB_CACHE names the folder for downloads"
    return DataError(str(folder), f"cannot be written: {error.strerror or error}", hint=hint)
