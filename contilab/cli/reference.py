"""A reference table of `contilab verify` in words: whose numbers these are, what they are, and the settings behind them."""

from typing import TYPE_CHECKING

from contilab.cli.columns import columns
from contilab.cli.width import line_width, paragraph

if TYPE_CHECKING:
    from contilab.report.published.table import Band, Cell, Table

STATUS = {"verified": "read in the source", "recalled": "known at second hand, so its cells give no verdict"}


def explain_reference(name: str) -> str:
    """Return the table *name*: its source, its numbers, and the settings that all of them share."""
    from contilab.manifest.wording import shown
    from contilab.report.published.table import read_table

    table = read_table(name)
    numbers: list[Cell | Band] = [*table.cells, *table.bands]
    rows = dict.fromkeys((f"  {one.method}", one.scenario, published(one)) for one in numbers)
    shared = {
        key: value for key, value in numbers[0].settings.items() if all(one.settings.get(key) == value for one in numbers)
    }
    parts = [
        f"{name} (reference table of contilab verify)",
        paragraph(table.title),
        paragraph(about(table)),
        paragraph(f"not stated in the source: {', '.join(table.not_stated)}") if table.not_stated else "",
        columns([("  method", "scenario", table.said), *rows], width=line_width()),
        columns([("  setting of all", "value"), *((f"  {key}", shown(shared[key])) for key in shared)], width=line_width()),
        f"contilab verify STUDY --against {name} compares a study with it",
    ]
    return "\n\n".join(part for part in parts if part)


def about(table: "Table") -> str:
    """Return where the numbers of *table* come from, and what they are."""
    status = f"recorded with {table.recorded_with}" if table.recorded_with else f"{table.status}: {STATUS[table.status]}"
    return f"{status}; {table.seeds} seeds; accuracies in %, mean ± standard error of the mean"


def published(reference: "Cell | Band") -> str:
    """Return the number of a cell with its standard error if there is one, or the range of a band."""
    from contilab.report.published.table import Band

    if isinstance(reference, Band):
        return f"{reference.low:g} to {reference.high:g}"
    return f"{reference.mean:.2f}" + ("" if reference.sem is None else f" ± {reference.sem:.2f}")
