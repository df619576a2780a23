"""results.parquet: the rows of results.csv with their types, where pyarrow is installed."""

import io
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from contilab.report.benchmark import plain


def results_parquet(found: Sequence[Mapping[str, Any]]) -> bytes | None:
    """Return *found*, as `rows` gives them, as a Parquet file; None without pyarrow, or without a row."""
    if not found or find_spec("pyarrow") is None:
        return None
    pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")  # of the test extra only, and without types
    out = io.BytesIO()
    parquet.write_table(pyarrow.table({name: _column([row[name] for row in found]) for name in found[0]}), out)
    return out.getvalue()


def _column(values: list[Any]) -> list[Any]:
    """Return *values* as one type: numbers or booleans as they are, whatever else as the text of a manifest.

    >>> _column([2**60, None, 0.5]), _column([1, "auto", None]), _column([[4, 4]])
    ([1.152921504606847e+18, None, 0.5], ['1', 'auto', None], ['[4, 4]'])
    """
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:  # pyarrow would refuse a whole number that no float is
        return [value if value is None else float(value) for value in values]
    if len(kinds) < 2 and kinds <= {int, float, bool}:
        return values
    return [value if value is None else plain(value) for value in values]
