"""In what a table of a bundle differs from the same table computed again: one sentence per cell."""

import csv
import io
import json
import math
from collections.abc import Iterator
from typing import Any

ROUNDING = 1e-9  # relative: another processor or numpy may sum in another order
WITH_RESULT = ("finished", "diverged")
MOVING = ("state", "reason")  # of a run without a result: how far it was when the bundle was made

Rows = list[dict[str, str]]


class Misshapen(Exception):
    """Raised for a table that is none."""


def differences(name: str, kept: bytes, again: bytes) -> Iterator[str]:
    """Yield in what the table *name* as it was *kept* differs from the one computed *again*."""
    try:
        yield from _of_json(kept, again) if name.endswith(".json") else _of_csv(kept, again)
    except Misshapen as fault:
        yield str(fault)


def _of_csv(kept: bytes, again: bytes) -> Iterator[str]:
    """Compare cell by cell; a later version may add columns, and runs without a result have no numbers."""
    old, new = _rows(kept), _rows(again)
    if len(old) != len(new):
        yield f"it has {len(old)} rows, computed again {len(new)}"
        return
    if foreign := sorted(_columns(old) - _columns(new)):
        yield f"nothing is computed for its column{'s' if len(foreign) > 1 else ''} {', '.join(foreign)}"
    for place, (before, after) in enumerate(zip(old, new, strict=True), 2):
        has_none = not {before.get("state", "finished"), after.get("state", "finished")} & {*WITH_RESULT}
        for column in (column for column in after if column in before):
            is_moving = column == "reason" or (has_none and column in MOVING)
            if not is_moving and not _is_equal(before[column], after[column]):
                yield f"line {place}, {column}: it says {before[column]}, computed again {after[column]}"


def _of_json(kept: bytes, again: bytes) -> Iterator[str]:
    if json.dumps(_rounded(_table(kept)), sort_keys=True) != json.dumps(_rounded(_table(again)), sort_keys=True):
        yield "computed again it is another one"


def _table(data: bytes) -> Any:
    try:
        return json.loads(data or b"null")
    except (ValueError, RecursionError) as error:
        raise Misshapen(f"it cannot be read: {error}") from error


def _rows(data: bytes) -> Rows:
    text = data.decode(errors="replace")
    previous = csv.field_size_limit(len(text) + 1)  # a reason may be as long as it likes
    try:
        header, *lines = list(csv.reader(io.StringIO(text, newline=""))) or [[]]
    except csv.Error as error:
        raise Misshapen(f"it cannot be read: {error}") from error
    finally:
        csv.field_size_limit(previous)
    ragged = next((place for place, line in enumerate(lines, 2) if len(line) != len(header)), 0)
    if ragged or len({*header}) < len(header):
        raise Misshapen(f"line {ragged} has not one cell per column" if ragged else "it has two columns of one name")
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    return [row for row in rows if "no result" not in row.get("reason", "")]


def _columns(rows: Rows) -> set[str]:
    return {column for row in rows[:1] for column in row}


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
    except (ValueError, RecursionError):
        return None


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 9)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value
