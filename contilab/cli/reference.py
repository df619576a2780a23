"""A reference table of `contilab verify` in words: whose numbers these are, what they are, and the settings behind them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from contilab.cli.columns import columns
from contilab.cli.width import line_width, paragraph

if TYPE_CHECKING:
    from contilab.report.published.table import Band, Cell, Table

    Number = Cell | Band
    Settings = Mapping[str, Any]

STATUS = {"verified": "read in the source", "recalled": "known at second hand, so its cells give no verdict"}
SHOWN = ("method.name", "benchmark.scenario")  # in columns of their own


def explain_reference(name: str) -> str:
    """Return the table *name*: its source, its numbers, and the settings behind them."""
    from contilab.report.published.table import read_table

    table = read_table(name)
    numbers: list[Number] = [*table.cells, *table.bands]
    methods = dict.fromkeys(number.method for number in numbers)
    shared = {method: _shared([number.settings for number in numbers if number.method == method]) for method in methods}
    parts = [
        f"{name} (reference table of contilab verify)",
        paragraph(table.title),
        paragraph(describe_table(table)),
        paragraph(f"not stated in the source: {', '.join(table.not_stated)}") if table.not_stated else "",
        columns(_number_rows(table.said, numbers, shared), width=line_width()),
        columns([("  setting", "value", "of"), *_setting_rows(shared)], width=line_width()),
        f"contilab verify STUDY --against {name} compares a study with it",
    ]
    return "\n\n".join(part for part in parts if part)


def describe_table(table: "Table") -> str:
    """Return where the numbers of *table* come from, and what they are."""
    status = f"recorded with {table.recorded_with}" if table.recorded_with else f"{table.status}: {STATUS[table.status]}"
    return f"{status}; {table.seeds} seeds; accuracies in %, mean ± standard error of the mean"


def describe_number(reference: "Number") -> str:
    """Return the number of a cell with its standard error if there is one, or the range of a band."""
    from contilab.report.published.table import Band

    if isinstance(reference, Band):
        return f"{reference.low:g} to {reference.high:g}"
    return f"{reference.mean:.2f}" + ("" if reference.sem is None else f" ± {reference.sem:.2f}")


def _shared(found: Sequence["Settings"]) -> dict[str, Any]:
    """Return the settings that all of *found* have alike, but for those that are shown anyway."""
    first, *others = found
    return {
        key: value
        for key, value in first.items()
        if key not in SHOWN and all(key in other and other[key] == value for other in others)
    }


def _number_rows(said: str, numbers: Iterable["Number"], shared: Mapping[str, "Settings"]) -> list[tuple[str, ...]]:
    """Return a row for each number; the last column, if any needs it, tells numbers of one method apart by their settings."""
    head = ("  method", "scenario", said, "settings of its own")
    rows = [
        (f"  {number.method}", number.scenario, describe_number(number), _own(number, shared[number.method]))
        for number in numbers
    ]
    return [head, *rows] if any(own for *_, own in rows) else [row[:-1] for row in (head, *rows)]


def _own(number: "Number", shared: "Settings") -> str:
    from contilab.manifest.wording import shown

    settings = number.settings.items()
    return ", ".join(f"{key} = {shown(value)}" for key, value in settings if key not in shared and key not in SHOWN)


def _setting_rows(shared: Mapping[str, "Settings"]) -> list[tuple[str, ...]]:
    """Return a row for each value of a setting that a method has in all of its numbers, with the methods that have it."""
    from contilab.manifest.wording import shown

    methods: dict[tuple[str, str], list[str]] = {}
    for method, settings in shared.items():
        for key, value in settings.items():
            methods.setdefault((f"  {key}", shown(value)), []).append(method)
    return [(*row, "all" if len(names) == len(shared) else ", ".join(names)) for row, names in sorted(methods.items())]
