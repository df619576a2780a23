"""Merge the levels of settings, later wins, and keep where each value came from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING
from typing import Any, NamedTuple

from pydantic import ValidationError

from contilab.errors import Fault
from contilab.manifest.accepted import accepted, inserts
from contilab.manifest.commandline import PLACE
from contilab.manifest.faults import value_fault
from contilab.manifest.keys import PLUGINS, RIVALS, SHARED, Key, adapter, named_keys, plugin_keys, shared_keys
from contilab.manifest.menu import Menu
from contilab.manifest.wording import names, shown
from contilab.spec.sections import Contradiction, Eval, Memory, plugin_from

BUILT_IN = {"train.epochs": 1, "memory.total": 500}  # where neither of two rivals is set; 500: as for Split MNIST


class Level(NamedTuple):
    """One source of settings.

    *is_own*: the user wrote it, so its settings go to every plugin that has them. *is_particular*: it is of one method,
    and what does not fit that method is a mistake, while a level of all methods may mean the others.
    """

    origin: str
    place: str  # what stands before the key in the place of a fault
    settings: Mapping[str, Any]
    is_own: bool = True
    is_particular: bool = False


class Given(NamedTuple):
    """A value and the level that it came from."""

    value: Any
    level: Level


class Merged(NamedTuple):
    """The settings of one cell: plain tables, the origin of each value by dotted key, and the faults found on the way.

    *places*: of a fault of a value that the user wrote, by dotted key. *passed*: key and value of what all methods were given
    and this one, which accepts another value only, goes without. *undefined*: that the scenario does not know the method at
    all, which is no fault if another preset's does.
    """

    tables: dict[str, dict[str, Any]]
    origins: dict[str, str]
    places: dict[str, str]
    faults: list[Fault]
    passed: list[tuple[str, Any]]
    undefined: Fault | None = None


class Rules(NamedTuple):
    """What cells are settled by: the menu, and the keys of each shared table and of each plugin's name.

    *memories*: what each method of the study that uses memory accepts of that table, by key. *typed*: the keys of the manifest
    that the command line gave, as places name them.
    """

    menu: Menu
    place: str
    memories: tuple[Mapping[str, tuple[str, ...]], ...]
    shared: dict[str, dict[str, Key]]
    named: dict[str, dict[str, Key]]
    typed: frozenset[str]

    def where(self, level: Level, key: str) -> str:
        """Return the place of a fault of *key* in *level*."""
        where = f"{level.place}{key}"
        is_typed = any(f"{where}.".startswith(f"{given}.") for given in self.typed)
        return where.replace(self.place, PLACE, 1) if is_typed else where


DEFAULTS = Level("default", "defaults: ", BUILT_IN, is_own=False)


def stack(levels: Iterable[Level], below: Mapping[str, Given] | None = None) -> dict[str, Given]:
    """Return the last value of each key; a later one replaces an earlier rival (`train.steps` and `train.epochs`)."""
    merged = dict(below or {})
    for level in levels:
        for key, value in level.settings.items():
            if key in RIVALS:
                merged.pop(RIVALS[key], None)
            merged[key] = Given(value, level)
    return merged


def rules(menu: Menu, place: str, methods: Iterable[str], typed: Iterable[str]) -> Rules:
    """Return the rules of *menu* for a study of *methods*; *place*: of the manifest; *typed*: its keys on the command line."""
    every = {**named_keys(menu), **shared_keys()}
    shared = {table: {key: value for key, value in every.items() if key.startswith(f"{table}.")} for table in SHARED}
    entries = (menu.entry("method", method) for method in methods)
    memories = tuple(entry.memory for entry in entries if entry.uses_memory)
    named = {kind: {f"{kind}.name": every[f"{kind}.name"]} for kind in ("model", "optim")}
    return Rules(menu, place, memories, shared, named, frozenset(f"{place}: {key}" for key in typed))


def settle(given: Mapping[str, Given], rules: Rules, method: str, meant: Mapping[str, str]) -> Merged:
    """Return the tables of a cell of *method*, all defaults written out.

    *meant*: the optimiser and model that profile and preset name. Settings that the cell's plugins do not have are left out; so
    are those of profile and preset if the user chose another plugin, and the memory of methods that use none.
    """
    merged = Merged({}, {}, {}, [], [])
    entry = rules.menu.entry("method", method)
    for table, keys in rules.shared.items():
        if table != "memory":
            merged.tables[table] = _filled(merged, rules, keys, given)
        elif entry.uses_memory:
            own = given_to_memory(given, entry.memory, rules)
            merged.passed.extend(_passed(given, own))
            merged.tables[table] = _filled(merged, rules, keys, own)
    for kind in PLUGINS:
        name = method if kind == "method" else _filled(merged, rules, rules.named[kind], given).get("name")
        if name not in rules.menu.names[kind]:
            continue
        kept = {key: value for key, value in given.items() if value.level.is_own or meant.get(kind, name) == name}
        merged.tables[kind] = {"name": name, **_filled(merged, rules, plugin_keys(rules.menu, kind, name), kept)}
    if not merged.faults:  # each value is what it may be: do they go together?
        merged.faults.extend(_contradictions(merged, rules))
    if merged.tables.get("memory", {}).get("batch") == "train":  # the word and its number are one run
        merged.tables["memory"]["batch"] = merged.tables["train"]["batch"]
    scenario = merged.tables["benchmark"].get("scenario", "")
    if merged.faults or scenario in entry.scenarios:
        return merged
    return merged._replace(undefined=_undefined(f"{rules.place}: matrix.method", method, scenario, entry.scenarios))


def given_to_memory(given: Mapping[str, Given], memory: Mapping[str, tuple[str, ...]], rules: Rules) -> dict[str, Given]:
    """Return what a method is given that accepts *memory*: its own defaults, and where it has no choice only what is meant."""
    own = {f"memory.{key}": Given(values[0], DEFAULTS) for key, values in memory.items()}
    fixed = {f"memory.{key}" for key, values in memory.items() if len(values) == 1}
    return {**own, **{key: value for key, value in given.items() if key not in fixed or _is_meant(rules, key, value)}}


def _is_meant(rules: Rules, key: str, given: Given) -> bool:
    """Return whether a *key* of memory is *given* to a method that accepts one value of it.

    What a level of all methods says is meant for those of the study that accept it, and for all if none does: a mistake.
    """
    short = key.partition(".")[2]
    fits_some = any(given.value in memory.get(short, (given.value,)) for memory in rules.memories)
    return given.level.is_particular or (given.level.is_own and not fits_some)


def _passed(given: Mapping[str, Given], own: Mapping[str, Given]) -> list[tuple[str, Any]]:
    """Return key and value of what the user has *given* of memory where the method has another value of its *own*."""
    written = {key: value.value for key, value in given.items() if value.level.is_own}
    return [(key, written[key]) for key in own if key in written and written[key] != own[key].value]


def _contradictions(merged: Merged, rules: Rules) -> list[Fault]:
    """Return the faults of values that do not go together, all of them."""
    tables = merged.tables
    return [
        *(_unfit(merged, rules) if "memory" in tables else ()),
        *_contradiction(f"{rules.place}: eval", Eval, tables["eval"]),
        *_narrowed(merged, rules),
        *(fault for kind in PLUGINS for fault in _refusal(rules, kind, tables[kind])),
    ]


def _unfit(merged: Merged, rules: Rules) -> list[Fault]:
    """Return the faults of a memory that the method cannot work with, or that contradicts itself."""
    memory, method = merged.tables["memory"], merged.tables["method"]["name"]
    of_method = rules.menu.entry("method", method).memory
    unfit = {f"memory.{key}": (memory[key], those) for key, those in accepted(of_method).items() if memory[key] not in those}
    faults = [
        Fault(_place(merged, rules, key), f"{shown(value)} does not fit {method}", f"it accepts {names(those)}")
        for key, (value, those) in unfit.items()
    ]
    if faults:  # a value that does not fit is not also to be told what it would need
        return faults
    fitting = names(inserts(memory["policy"], of_method))
    hint = f"set memory.insert = {fitting}, or choose another policy"
    return _contradiction(_place(merged, rules, "memory.policy"), Memory, memory, hint)


def _contradiction(place: str, section: type[Memory | Eval], table: Mapping[str, Any], hint: str = "") -> list[Fault]:
    """Return the fault that the *section* finds in the combination of the settings of its *table*, if any."""
    try:
        section(**table)
    except Contradiction as error:
        return [Fault(place, str(error), hint or error.hint)]
    return []


def _narrowed(merged: Merged, rules: Rules) -> list[Fault]:
    """Return the faults of choices of the method's settings that are not defined in the scenario."""
    method, scenario = merged.tables["method"], merged.tables["benchmark"]["scenario"]
    name, entry = method["name"], rules.menu.entry("method", method["name"])
    return [
        _undefined(_place(merged, rules, f"method.{key}"), f'{key} = "{method[key]}" of {name}', scenario, choices[method[key]])
        for key, choices in entry.narrowed.items()
        if scenario in entry.scenarios and scenario not in choices.get(method[key], entry.scenarios)
    ]


def _place(merged: Merged, rules: Rules, key: str) -> str:
    return merged.places.get(key, f"{rules.place}: {key}")


def _undefined(place: str, what: str, scenario: str, scenarios: Sequence[str]) -> Fault:
    return Fault(
        place,
        f"{what} is not defined in the {scenario}-incremental scenario",
        f"it is in {names(scenarios)}; leave it out of this preset's study",
    )


def _filled(merged: Merged, rules: Rules, keys: Mapping[str, Key], given: Mapping[str, Given]) -> dict[str, Any]:
    filled: dict[str, Any] = {}
    for dotted, key in keys.items():
        short = dotted.partition(".")[2]
        if dotted in given:
            value, level = given[dotted]
            merged.origins[dotted], where = level.origin, rules.where(level, dotted)
            if level.is_own:
                merged.places[dotted] = where
            filled[short] = _checked(merged, where, key, value)
        elif key.default is MISSING:
            merged.faults.append(Fault(f"{rules.place}: {dotted}", "the key is missing", "set it in overrides"))
        elif key.default is not None:  # None: its rival is set
            merged.origins[dotted] = DEFAULTS.origin
            filled[short] = list(key.default) if isinstance(key.default, tuple) else key.default
    return filled


def _checked(merged: Merged, where: str, key: Key, value: Any) -> Any:
    try:
        return adapter(key.hint).validate_python(value)
    except ValidationError as error:
        merged.faults.append(value_fault(error, key.hint, where))
        return value


def _refusal(rules: Rules, kind: str, table: Mapping[str, Any]) -> list[Fault]:
    """Return the fault that a plugin finds in the combination of its settings, if any."""
    plugin = plugin_from(table)
    try:
        rules.menu.entry(kind, plugin.name).settings(**plugin.settings)
    except ValueError as error:
        return [Fault(f"{rules.place}: {kind} {plugin.name}", str(error), "change one of these settings")]
    return []
