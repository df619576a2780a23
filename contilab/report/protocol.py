"""The protocol: every setting behind a table, what its cells share and what each has of its own."""

from typing import NamedTuple

from contilab.report.benchmark import Benchmark, Variant, plain
from contilab.report.settings import flat
from contilab.store.store import Store


class Protocol(NamedTuple):
    """*shared*: settings that all cells have in common; *own*: by the label of the cell, its other settings."""

    shared: dict[str, str]
    own: dict[str, dict[str, str]]

    def values(self, key: str) -> tuple[str, ...]:
        """Return every value that *key* has in some cell, each once."""
        found = [settings[key] for settings in (self.shared, *self.own.values()) if key in settings]
        return tuple(dict.fromkeys(found))


def protocol(store: Store, benchmark: Benchmark) -> Protocol:
    """Return the settings of the cells of *benchmark* by dotted key; seeds are no setting."""
    cells = {variant.label: settings(store, variant) for variant in benchmark.variants if variant.runs}
    first = next(iter(cells.values()), {})
    shared = {key: value for key, value in first.items() if all(cell.get(key) == value for cell in cells.values())}
    own = {label: {key: value for key, value in cell.items() if key not in shared} for label, cell in cells.items()}
    return Protocol(shared, own)


def settings(store: Store, variant: Variant) -> dict[str, str]:
    """Return the settings of *variant* by dotted key."""
    return {key: plain(value) for key, value in flat(store.run(variant.runs[0].rid).config).items()}
