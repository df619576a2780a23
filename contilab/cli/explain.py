"""A name of a manifest in words: an entry of the menu, a table of settings, a preset, a profile; and a metric of results."""

import math
from collections.abc import Sequence
from dataclasses import MISSING
from typing import get_args

from contilab.cli.columns import columns
from contilab.cli.settings import Setting
from contilab.cli.width import line_width, paragraph
from contilab.errors import InputError
from contilab.manifest.accepted import accepted
from contilab.manifest.keys import RIVALS, Key, settings_keys, shared_keys
from contilab.manifest.levels import BUILT_IN
from contilab.manifest.profile import Settings, profile_names, profile_summary, read_profile
from contilab.manifest.wording import accepts, names, shown
from contilab.metrics.contract import Metric
from contilab.spec.entry import Entry
from contilab.spec.fields import per_member
from contilab.spec.sections import Scenario

SHAPES = (
    ((1, 28, 28), 10),
    ((3, 32, 32), 10),
    ((3, 32, 32), 100),
    ((3, 64, 64), 200),
)  # inputs and rows: MNIST to TinyImageNet


def explain(kind: str, name: str, entry: Entry) -> str:
    """Return what *entry* is as text; its settings are worded as the faults of a manifest word them."""
    parts = [f"{name} ({kind})", paragraph(entry.summary), _settings(kind, entry.settings)]
    if kind == "model":
        parts.append(_sizes(entry))
    parts.append(_memory(entry))
    parts.append(_limits(entry))
    if entry.paper:
        parts.append(f"paper: {entry.paper}")
    return "\n\n".join(part for part in parts if part)


def explain_table(name: str) -> str:
    """Return the settings of the table *name* that no plugin owns, such as `train`."""
    rows = [_row(key, value, may_differ=False) for key, value in shared_keys().items() if key.startswith(f"{name}.")]
    return f"{name} (table of settings)\n\n{_table(rows)}"


def explain_settings(title: str, found: Sequence[Setting]) -> str:
    """Return the settings *found* under *title*; where plugins have them, each with the plugin."""
    rows = [(*_row(one.name, one.key, may_differ=one.may_differ), one.owner) for one in found]
    head = ("  setting", "default", "accepted", "meaning", "of")
    is_owned = any(one.owner for one in found)
    table = [(row[0], row[4], *row[1:4]) if is_owned else row[:4] for row in (head, *rows)]
    return f"{title}\n\n{_aligned(table)}"


def explain_preset(name: str) -> str:
    """Return what the preset *name* sets in each profile that has it; other settings keep their defaults."""
    found = {profile: read_profile(profile).presets.get(name, {}) for profile in profile_names()}
    found = {profile: settings for profile, settings in found.items() if settings}
    keys = dict.fromkeys(key for settings in found.values() for key in settings)
    rows = [(f"  {key}", *(_set(settings, key) for settings in found.values())) for key in keys]
    return f"{name} (preset)\n\nWhat it sets under each profile; everything else has its default.\n\n" + _aligned(
        [("  setting", *found), *rows]
    )


def explain_profile(name: str) -> str:
    """Return what the profile *name* is for and its defaults for every run."""
    rows = [(f"  {key}", shown(value)) for key, value in read_profile(name).defaults.items()]
    parts = [f"{name} (profile)", profile_summary(name), _aligned([("  setting", "default"), *rows]) if rows else ""]
    return "\n\n".join(part for part in parts if part)


def explain_metric(metric: Metric) -> str:
    """Return what *metric* is, its rule as its code tells it, its unit and which direction is better."""
    rule = (metric.function.__doc__ or "").split(">>>")[0]
    better = {True: "higher is better", False: "lower is better", None: ""}[metric.higher_is_better]
    parts = [
        f"{metric.name} (metric, a column of results.csv)",
        metric.summary,
        paragraph(rule),
        f"unit: {metric.unit}" + (f"; {better}" if better else ""),
        f"paper: {metric.paper}" if metric.paper else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _memory(entry: Entry) -> str:
    """Return which settings of memory apply to a method, and what it accepts of them."""
    if not entry.uses_memory:
        return ""
    rows = [(f"  memory.{key}", shown(values[0]), names(values)) for key, values in accepted(entry.memory).items()]
    head = f"it uses memory, {_memory_defaults(entry)}, see contilab list memory"
    return (
        f"{head}; of these settings it accepts\n\n{_aligned([('  setting', 'default', 'accepted'), *rows])}" if rows else head
    )


def _memory_defaults(entry: Entry) -> str:
    """Return how much a method keeps in memory, and replays of it in each step, unless a manifest says otherwise."""
    size = f"by default memory.total = {BUILT_IN['memory.total']}"
    is_whole = all(key.default is not MISSING for key in settings_keys(entry.settings).values())
    if is_whole and not entry.make(entry.settings()).replay:
        return f"{size}, and memory.batch does not apply"
    return f"{size} and memory.batch = {shown(shared_keys()['memory.batch'].default)} (as many as train.batch)"


def _limits(entry: Entry) -> str:
    """Return in which scenarios an entry is defined, where these are not all."""
    lines = [] if set(entry.scenarios) == set(get_args(Scenario)) else [f"scenarios: {names(entry.scenarios)}"]
    for key, choices in entry.narrowed.items():
        lines += [f"scenarios of {key} = {shown(value)}: {names(accepted)}" for value, accepted in choices.items()]
    return "\n".join(lines)


def _sizes(entry: Entry) -> str:
    """Return how large a model is with its defaults, for the inputs and rows of well-known benchmarks."""
    if any(key.default is MISSING for key in settings_keys(entry.settings).values()):
        return ""
    rows = [row for shape, rows in SHAPES for row in _size(entry, shape, rows)]
    return (
        columns([("  inputs", "rows", "parameters", "MFLOP per sample, forward"), *rows], right=(1, 2, 3), width=line_width())
        if rows
        else ""
    )


def _size(entry: Entry, shape: tuple[int, ...], rows: int) -> list[tuple[str, ...]]:
    try:
        model = entry.make(entry.settings(), shape, rows)
    except InputError:  # inputs that it cannot take
        return []
    parameters = sum(math.prod(item.shape) for item in model.table.values())
    inputs = " x ".join(str(size) for size in shape)
    return [(f"  {inputs}", str(rows), f"{parameters:,}", f"{model.flops / 1e6:,.3f}")]


def _settings(kind: str, settings: type) -> str:
    varying = per_member(settings)
    rows = [_row(f"{kind}.{name}", key, may_differ=name in varying) for name, key in settings_keys(settings).items()]
    return _table(rows) if rows else ""


def _table(rows: list[tuple[str, ...]]) -> str:
    return _aligned([("  setting", "default", "accepted", "meaning"), *rows])


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    return columns(rows, width=line_width())


def _row(name: str, key: Key, *, may_differ: bool) -> tuple[str, ...]:
    return f"  {name}", _default(name, key), accepts(key.hint), _meaning(name, key, may_differ=may_differ)


def _set(settings: Settings, key: str) -> str:
    return shown(settings[key]) if key in settings else ""


def _default(name: str, key: Key) -> str:
    if key.default is MISSING:
        return "(needed)"
    if name in BUILT_IN:  # of two rivals of which neither has a default in its table
        return f"{shown(BUILT_IN[name])} (built in)"
    return "(unset)" if key.default is None else shown(list(key.default) if isinstance(key.default, tuple) else key.default)


def _meaning(name: str, key: Key, *, may_differ: bool) -> str:
    meaning = f"{key.doc}; or set {RIVALS[name]}" if name in RIVALS else key.doc
    return f"{meaning}; may differ between members" if may_differ else meaning
