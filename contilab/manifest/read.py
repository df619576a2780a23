"""Read a manifest: bytes to text to TOML, every way in which that fails as one clear sentence.

`tomllib` alone is not enough: a byte order mark, UTF-16, deep nesting and endless integers end in four other exceptions,
of which none names the file.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

from contilab.errors import Fault, ManifestError

LEVELS = 32  # of tables and lists in each other; chosen: a manifest needs seven

_AT = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_HINTS = {  # beginnings of tomllib's reasons, and what usually helps
    "Unescaped '\\'": "write each backslash twice, or put the text into single quotes",
    "Invalid statement": "a key of other signs than A-Z, a-z, 0-9, _ and - needs quotes",
    "Invalid value": "text needs quotes, and a number needs a digit before its point",
    "Cannot overwrite a value": "each key and each table may stand only once",
    "Cannot declare": "each key and each table may stand only once",
    "Cannot mutate immutable": "an inline table is closed: write all of its keys into its braces",
    "Expected newline or end": "one statement per line, and numbers without leading zeros",
    "Invalid initial character for a key": "a statement is key = value",
    "Expected '=' after a key": "a statement is key = value, and a key of other signs than A-Z, a-z, 0-9, _ and - needs quotes",
}


def read_text(path: Path) -> str:
    """Return the text of the file *path*; a byte order mark and CRLF are accepted.

    Raises ManifestError if the file cannot be read or is not UTF-8.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        problem = f"cannot be read: {(error.strerror or 'unknown reason').lower()}"
        raise _one(str(path), problem, "the first argument is the path of a manifest") from error
    return decode(data, str(path))


def decode(data: bytes, place: str) -> str:
    """Return *data* as text with line feeds only; ManifestError if it is not UTF-8 or has lone carriage returns."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data[:256]:
        raise _one(place, "the text is UTF-16, not UTF-8", "save the file as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _one(f"{place}, line {line}", f"byte 0x{data[error.start]:02x} is not UTF-8", "save the file as UTF-8") from error
    text = text.replace("\r\n", "\n")
    if "\r" in text:
        line = text.count("\n", 0, text.index("\r")) + 1
        raise _one(f"{place}, line {line}", "a carriage return without a line feed", "end lines with LF or CRLF")
    return text


def parse(text: str, place: str) -> dict[str, Any]:
    """Return the document that the TOML *text* holds; ManifestError naming *place*, and the line where it is known."""
    too_deep = _one(place, "values are nested too deeply", "settings are plain values, or lists of them")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax(text, place, str(error)) from error
    except RecursionError as error:
        raise too_deep from error
    except ValueError as error:  # more digits than Python reads as an integer
        found = re.search(r"\d[\d_]{999,}", text)
        where = f"{place}, line {text.count(chr(10), 0, found.start()) + 1}" if found else place
        raise _one(where, "an integer has too many digits", "integers have 64 bits") from error
    if is_deep(document):  # a table of a thousand dotted names is read without recursion, and copied with it
        raise too_deep
    return document


def is_deep(document: dict[str, Any]) -> bool:
    """Return whether values are nested deeper than LEVELS; level by level, as recursion would itself go too deep."""
    level: list[Any] = [document]
    for _ in range(LEVELS):
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
    return bool(level)


def _syntax(text: str, place: str, message: str) -> ManifestError:
    found = _AT.search(message)
    reason = message[: found.start()] if found else message
    lines = text.splitlines() or [""]
    number = int(found[1]) if found and found[1] else 0
    at = f"line {number}" if number else f"end of file, line {len(lines)}"
    shown = lines[min(number or len(lines), len(lines)) - 1].strip()[:60]
    problem = reason[:1].lower() + reason[1:] + (f" in `{shown}`" if shown else "")
    hint = next((hint for start, hint in _HINTS.items() if reason.startswith(start)), "the file must be valid TOML")
    return _one(f"{place}, {at}", problem, hint)


def _one(place: str, problem: str, hint: str) -> ManifestError:
    return ManifestError([Fault(place, problem, hint)])
