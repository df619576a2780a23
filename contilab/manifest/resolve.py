"""Resolve a manifest: every fault in one message, or every cell with all of its settings and where each came from."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from contilab.errors import Fault, ManifestError
from contilab.manifest.axes import axes, clashes, combinations
from contilab.manifest.commandline import PLACE, CommandLine, read_values
from contilab.manifest.document import BENCHMARK, TOP, benchmark_settings, doubled, flat_document
from contilab.manifest.faults import faults_of, path_text
from contilab.manifest.form import DEFAULT_PROFILE, form
from contilab.manifest.levels import DEFAULTS, Level, Merged, Rules, rules, settle, stack
from contilab.manifest.menu import Menu
from contilab.manifest.profile import Profile, profile_names, read_profile
from contilab.manifest.read import parse
from contilab.manifest.used import owners_of, used_names
from contilab.manifest.wording import names, shown


class ResolvedCell(NamedTuple):
    """One combination of a study: everything but the seed.

    *settings*: one plain table per section, all defaults written out; no `memory` for methods without one. *sweep*: the
    values of the axes that this cell uses. *origins*: where each value came from, by dotted key. *places*: of a fault of a
    value that the manifest or the command line says, by dotted key.
    """

    preset: str
    method: str
    seeds: tuple[int, ...]
    settings: dict[str, dict[str, Any]]
    sweep: dict[str, Any]
    origins: dict[str, str]
    places: dict[str, str]


class Resolved(NamedTuple):
    """A valid manifest: the name of its study, and its cells in the order of the manifest.

    *left_out*: methods that the scenario of a preset does not know, while another preset's does, and settings of memory that
    fit others of the methods only, in one sentence part each.
    """

    name: str
    cells: tuple[ResolvedCell, ...]
    left_out: tuple[str, ...] = ()


def resolve(text: str, *, place: str, values: Sequence[str], menu: Menu) -> Resolved:
    """Return what the manifest *text* and the command line's *values* ask for.

    Raises ManifestError with every fault; *place* is the manifest's name in it.
    """
    written = parse(text, place)
    line = read_values(values)
    document = {**line.applied(flat_document(written)), PLACE: line.settings}
    profile = _profile(document)
    valid, faults = _validated(document, line, menu, profile, place)
    if PLACE in written:  # the model's own name for what the command line says
        faults.append(Fault(f"{place}: {PLACE}", "unknown key", f"accepted: {names(TOP)}"))
    faults = [*line.faults, *doubled(written, place), *faults, *clashes(document, line.settings, place)]
    if faults or valid is None:
        raise ManifestError(faults)
    settled_by = rules(menu, place, valid["matrix"]["method"], map(path_text, line.document))
    return Resolved(valid["name"], *_cells(valid, profile, settled_by, place))


def _profile(document: Mapping[str, Any]) -> Profile:
    """Return the profile that *document* names; the usual one if that name is itself a fault."""
    name = document.get("profile")
    return read_profile(name if isinstance(name, str) and name in profile_names() else DEFAULT_PROFILE)


def _validated(
    document: Mapping[str, Any], line: CommandLine, menu: Menu, profile: Profile, place: str
) -> tuple[dict[str, Any] | None, list[Fault]]:
    used = used_names(document, menu, profile)
    given = document.get("method_sweep", {})
    sweeps = [name for name in menu.names["method"] if name in (given or ())]
    model = form(menu, tuple(profile.presets), used, sweeps or (menu.names["method"] if "method_sweep" in document else ()))
    try:
        return model.model_validate(document).model_dump(by_alias=True, exclude_unset=True), []
    except ValidationError as error:

        def where(path: tuple[str | int, ...]) -> str:
            if path[0] == PLACE:
                return f"{PLACE}: {path_text(path[1:])}"
            given = any(path[: len(own)] == own for own in line.document)
            return f"{PLACE if given else place}: {path_text(path)}"

        return None, faults_of(error, model, where, owners_of(menu, used))


def _cells(
    document: Mapping[str, Any], profile: Profile, rules: Rules, place: str
) -> tuple[tuple[ResolvedCell, ...], tuple[str, ...]]:
    """Return the cells, each once: some become equal because they leave out a setting that varies; and what was left out."""
    cells: dict[str, ResolvedCell] = {}
    faults: dict[Fault, None] = {}
    undefined: dict[tuple[str, str], Fault] = {}
    passed: dict[tuple[str, str, str], dict[str, None]] = {}
    for cell, merged in _every_cell(document, profile, rules, place):
        faults |= dict.fromkeys(merged.faults)
        if merged.undefined is not None:
            undefined[cell.method, cell.preset] = merged.undefined
            continue
        for key, value in merged.passed:
            passed.setdefault((key, cell.method, _value(merged, key)), {})[value] = None
        cells.setdefault(json.dumps([cell.preset, cell.method, cell.settings], sort_keys=True, default=str), cell)
    kept = {cell.method for cell in cells.values()}
    faults |= dict.fromkeys(fault for (method, _), fault in undefined.items() if method not in kept)
    if faults:
        raise ManifestError(list(faults))
    notes = [f"{fault.problem}: not in {preset}" for (_, preset), fault in undefined.items()]
    notes += [f"{key} = {names(values)} in {method}, which keeps {shown(own)}" for (key, method, own), values in passed.items()]
    return tuple(cells.values()), tuple(notes)


def _every_cell(
    document: Mapping[str, Any], profile: Profile, rules: Rules, place: str
) -> Iterator[tuple[ResolvedCell, Merged]]:
    matrix = document["matrix"]
    last = Level(PLACE, f"{PLACE}: ", document[PLACE])
    for preset in matrix["preset"]:
        below = stack(_common(document, profile, preset, place))
        meant = _meant(profile, preset)
        for method in matrix["method"]:
            varied = axes(document, method)
            beneath = stack(_of_method(document, method, preset, place), below)
            for settings in combinations(varied):
                own = [_of_axes(table, table_settings, place) for table, table_settings in settings.items()]
                merged = settle(stack([*own, last], beneath), rules, method, meant)
                sweep = {axis.key: _value(merged, axis.key) for axis in varied if axis.key in merged.origins}
                told = merged.origins, merged.places
                yield ResolvedCell(preset, method, tuple(matrix["seed"]), merged.tables, sweep, *told), merged


def _common(document: Mapping[str, Any], profile: Profile, preset: str, place: str) -> list[Level]:
    """Return the levels below the axes, in their order."""
    name = document.get("profile", DEFAULT_PROFILE)
    own = document.get("preset_overrides", {}).get(preset, {})
    return [
        DEFAULTS,
        Level(f"profile {name}", f"profile {name}: ", profile.defaults, is_own=False),
        Level(f"preset {preset}", f"preset {preset}: ", profile.presets[preset], is_own=False),
        Level("benchmark", f"{place}: ", benchmark_settings(document.get(BENCHMARK, {}))),
        Level("overrides", f"{place}: overrides.", document.get("overrides", {})),
        Level("preset_overrides", f"{place}: preset_overrides.{preset}.", own),
    ]


def _of_axes(table: str, settings: Mapping[str, Any], place: str) -> Level:
    """Return the level of one combination's *settings* of the axes in *table*."""
    name, _, method = table.partition(".")
    return Level(name, f"{place}: {table}.", settings, is_particular=bool(method))


def _of_method(document: Mapping[str, Any], method: str, preset: str, place: str) -> list[Level]:
    """Return the levels of the settings of *method*, and of those it has in *preset*."""
    given = document.get("method_overrides", {}).get(method, {})
    everywhere = {key: value for key, value in given.items() if not isinstance(value, dict)}
    table = f"method_overrides.{method}"
    return [
        Level("method_overrides", f"{place}: {table}.", everywhere, is_particular=True),
        Level("method_overrides", f"{place}: {table}.{preset}.", given.get(preset) or {}, is_particular=True),
    ]


def _meant(profile: Profile, preset: str) -> dict[str, str]:
    """Return the optimiser and model that profile and preset name, and so speak of."""
    named = {**profile.defaults, **profile.presets[preset]}
    return {kind: named[f"{kind}.name"] for kind in ("model", "optim") if f"{kind}.name" in named}


def _value(merged: Merged, key: str) -> Any:
    table, _, short = key.partition(".")
    return merged.tables[table][short]
