"""In what a table of a bundle differs from the same table computed again: one sentence per cell."""

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from contilab.report.bundle_versions import Versions
from contilab.report.selection import CRITERION

ROUNDING = 1e-9  # relative: another processor or numpy may sum in another order
WITH_RESULT = ("finished", "diverged")
MOVING = ("state", "reason")  # of a run without a result: how far it was when the bundle was made

Rows = dict[int, dict[str, str]]  # by the line of the file


class _Misshapen(ValueError):
    """Raised for a table that is none."""


def differences(name: str, kept: bytes, again: bytes, versions: Versions) -> Iterator[str]:
    """Yield in what the table *name* as it was *kept* differs from the one computed *again*, metrics of two versions aside."""
    try:
        if name.endswith(".json"):
            yield from _of_json(kept, again)
        else:
            old, new = _rows(kept, versions), _rows(again, versions)
            yield from _of_columns(_columns(old), _columns(new), versions)
            yield from _of_absent(old, new) if name == "absent.csv" else _of_cells(old, new, versions)
    except _Misshapen as fault:
        yield str(fault)


def columns(kept: bytes) -> list[str]:
    """Return the names of the columns of a table; none if it cannot be read."""
    try:
        return next(csv.reader(io.StringIO(kept.decode(errors="replace"), newline="")), [])
    except csv.Error:
        return []


def _of_columns(had: set[str], has: set[str], versions: Versions) -> Iterator[str]:
    """Compare the names of columns; a later version may add some."""
    if foreign := sorted(had - has - versions.apart):
        yield f"nothing is computed for its column{_s(foreign)} {', '.join(foreign)}"
    if lacking := sorted((has & versions.shared) - had):
        yield f"it lacks the column{_s(lacking)} {', '.join(lacking)}"


def _of_cells(old: Rows, new: Rows, versions: Versions) -> Iterator[str]:
    """Compare cell by cell; runs without a result have no numbers."""
    if len(old) != len(new):
        yield f"it has {len(old)} rows, computed again {len(new)}"
        return
    aside = versions.apart | ({"selected"} if CRITERION in versions.apart else set())
    for (place, before), after in zip(old.items(), new.values(), strict=True):
        has_none = not {before.get("state", "finished"), after.get("state", "finished")} & {*WITH_RESULT}
        for column in (column for column in after if column in before.keys() - aside):
            is_moving = column == "reason" or (has_none and column in MOVING)
            if not is_moving and not _is_equal(before[column], after[column]):
                yield f"line {place}, {column}: it says {before[column]}, computed again {after[column]}"


def _of_absent(old: Rows, new: Rows) -> Iterator[str]:
    """Compare which metrics of which runs have no value; the words of a reason are free, and so are order and later columns."""
    lacking = {_absence(row) for row in new.values()}
    for place, row in old.items():
        run, name = _absence(row)
        if (run, name) not in lacking:
            yield f"line {place}: it says that {name} of run {run} has no value, computed again it is otherwise"
        lacking.discard((run, name))
    for run, name in sorted(lacking):
        yield f"it does not say that {name} of run {run} has no value"


def _absence(row: Mapping[str, str]) -> tuple[str, str]:
    return row.get("run", ""), row.get("metric", "")


def _of_json(kept: bytes, again: bytes) -> Iterator[str]:
    if json.dumps(_rounded(_table(kept)), sort_keys=True) != json.dumps(_rounded(_table(again)), sort_keys=True):
        yield "computed again it is another one"


def _table(data: bytes) -> Any:
    try:
        return json.loads(data or b"null")
    except (ValueError, RecursionError) as error:
        raise _Misshapen(f"it cannot be read: {error}") from error


def _rows(data: bytes, versions: Versions) -> Rows:
    """Return the rows of the table *data*, each by the line of the file that it begins in; what is not compared is left out."""
    (_, header), *lines = list(_lines(data)) or [(1, [])]
    ragged = next((place for place, line in lines if len(line) != len(header)), 0)
    if ragged or len({*header}) < len(header):
        raise _Misshapen(f"line {ragged} has not one cell per column" if ragged else "it has two columns of one name")
    rows = {place: dict(zip(header, line, strict=True)) for place, line in lines}
    return {place: row for place, row in rows.items() if _is_compared(row, versions)}


def _is_compared(row: Mapping[str, str], versions: Versions) -> bool:
    return "no result" not in row.get("reason", "") and row.get("metric") not in versions.apart


def _lines(data: bytes) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row and where it begins: a reason may go over several lines."""
    text, place = data.decode(errors="replace"), 1
    previous = csv.field_size_limit(len(text) + 1)  # a reason may be as long as it likes
    try:
        reader = csv.reader(io.StringIO(text, newline=""))
        for line in reader:
            yield place, line
            place = reader.line_num + 1
    except csv.Error as error:
        raise _Misshapen(f"it cannot be read: {error}") from error
    finally:
        csv.field_size_limit(previous)


def _columns(rows: Rows) -> set[str]:
    return {column for row in [*rows.values()][:1] for column in row}


def _s(names: Sequence[str]) -> str:
    return "s" if len(names) > 1 else ""


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
