"""Group runs that one ensemble can train: equal but for the seed and the settings that are taken per member."""

from collections.abc import Collection, Iterable, Mapping

from contilab.engine.executions.blocks import evenly
from contilab.manifest.menu import Menu
from contilab.spec.canonical import canonical
from contilab.spec.fields import in_common
from contilab.spec.run import Run
from contilab.spec.sections import Execution
from contilab.spec.study import Cell


def groups(cells: Iterable[Cell], runs: Mapping[str, Run], without: Collection[str], menu: Menu) -> list[tuple[str, ...]]:
    """Return the groups of the runs of *cells*, in the order of the manifest, but for those in *without*.

    A group has at most `engine.max_members` runs; where that takes several, they are of nearly one size, so that workers end
    at about the same time.
    """
    seen = set(without)
    alike: dict[bytes, list[str]] = {}
    sizes: dict[bytes, int] = {}
    for cell in cells:
        rids = list(dict.fromkeys(rid for rid in cell.runs.values() if rid not in seen))
        seen.update(rids)
        if rids:
            key = _key(runs[rids[0]], cell.execution, menu)  # the same for every seed
            alike.setdefault(key, []).extend(rids)
            sizes[key] = cell.execution.max_members
    return [tuple(group) for key, rids in alike.items() for group in evenly(rids, -(-len(rids) // sizes[key]))]


def _key(run: Run, execution: Execution, menu: Menu) -> bytes:
    """Return what runs must have in common; their execution too, because a group is trained in one way."""
    config = dict(run.config)
    for kind in ("optim", "method"):
        config[kind] = in_common(menu.entry(kind, config[kind]["name"]).settings, config[kind])
    return canonical(config) + repr(execution).encode()
