"""Everything a user may name, by title: each name with one line, and a longer explanation for who asks for it.

Besides the entries of the catalog these are the presets of all profiles and the metrics of a report.
"""

from collections.abc import Callable
from typing import NamedTuple

from contilab import catalog
from contilab.cli.columns import columns
from contilab.manifest.profile import preset_names, profile_names, read_profile
from contilab.manifest.wording import shown
from contilab.metrics.contract import Metric
from contilab.metrics.table import metric

TITLES = {"benchmark": "benchmarks", "model": "models", "optim": "optimisers", "method": "methods"}


class Named(NamedTuple):
    """One name: what it is in one line, and in full."""

    line: str
    explain: Callable[[], str]


def everything() -> dict[str, dict[str, Named]]:
    """Return all names by title, in the order of the catalog."""
    entries = {title: {name: _entry(kind, name) for name in catalog.KINDS[kind]} for kind, title in TITLES.items()}
    return {"presets": {name: _preset(name) for name in preset_names()}, **entries, "metrics": _metrics()}


def _entry(kind: str, name: str) -> Named:
    entry = catalog.entry(kind, name)

    def explain() -> str:
        from contilab.cli.explain import explain as explained

        return explained(kind, name, entry)

    return Named(_first_sentence(entry.summary), explain)


def _preset(name: str) -> Named:
    by_profile = {profile: read_profile(profile).presets.get(name, {}) for profile in profile_names()}
    keys = dict.fromkeys(key for settings in by_profile.values() for key in settings)
    rows = [
        (f"  {key}", *(shown(settings[key]) if key in settings else "-" for settings in by_profile.values())) for key in keys
    ]
    one = next(settings for settings in by_profile.values() if settings)
    line = f"{one['benchmark.name']}, {one['benchmark.scenario']}-incremental, {one['benchmark.tasks']} tasks"
    table = columns([("  setting", *(f"profile {profile}" for profile in by_profile)), *rows])
    return Named(line, lambda: f"{name} (preset)\n\n{line}\n\n{table}")


def _metrics() -> dict[str, Named]:
    return {name: _metric(metric(name)) for name in catalog.METRICS}


def _metric(found: Metric) -> Named:
    better = {True: "higher is better", False: "lower is better", None: "neither high nor low is better"}[
        found.higher_is_better
    ]
    facts = f"unit: {found.unit}; {better}"
    rule = " ".join((found.function.__doc__ or "").split(">>>")[0].split())
    parts = (f"{found.name} (metric)", found.summary, rule, facts, f"paper: {found.paper}" if found.paper else "")
    return Named(found.summary, lambda: "\n\n".join(part for part in parts if part))


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).split(". ")[0].rstrip(".")
