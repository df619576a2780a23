"""Profiles: the defaults and presets that a kind of machine or purpose brings, as TOML files in this package.

`extends` names a profile that is read first. A preset with `scenarios` stands for one preset per scenario, named
`<preset>_<scenario>`.
"""

from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from contilab.manifest.document import flat_table
from contilab.manifest.read import parse

Settings = dict[str, Any]  # by dotted key


class Profile(NamedTuple):
    """Settings of every run, and of the runs of each preset."""

    defaults: Settings
    presets: dict[str, Settings]


@cache
def profile_names() -> tuple[str, ...]:
    """Return the names of all profiles, sorted."""
    return tuple(sorted(path.name.removesuffix(".toml") for path in _folder().iterdir() if path.name.endswith(".toml")))


@cache
def preset_names() -> tuple[str, ...]:
    """Return the names of the presets of all profiles, sorted."""
    return tuple(sorted({name for profile in profile_names() for name in read_profile(profile).presets}))


@cache
def read_profile(name: str) -> Profile:
    """Return the profile *name*, which must be one of `profile_names()`."""
    document = _merged(name)
    presets: dict[str, Settings] = {}
    for preset, table in document["presets"].items():
        settings = {key: value for key, value in table.items() if key != "scenarios"}
        for scenario in table.get("scenarios", ()):
            presets[f"{preset}_{scenario}"] = {**settings, "benchmark.scenario": scenario}
        if "scenarios" not in table:
            presets[preset] = settings
    return Profile(document["defaults"], presets)


def profile_summary(name: str) -> str:
    """Return what the profile *name* is for: the comment that its file begins with."""
    return _text(name).partition("\n")[0].removeprefix("# ")


def _merged(name: str) -> dict[str, Any]:
    document = parse(_text(name), f"profile {name}")
    below = _merged(document["extends"]) if "extends" in document else {"defaults": {}, "presets": {}}
    presets = {preset: flat_table(table) for preset, table in document.get("presets", {}).items()}
    return {
        "defaults": {**below["defaults"], **flat_table(document.get("defaults", {}))},
        "presets": below["presets"] | {preset: {**below["presets"].get(preset, {}), **own} for preset, own in presets.items()},
    }


def _text(name: str) -> str:
    text: str = (_folder() / f"{name}.toml").read_text(encoding="utf-8")
    return text


def _folder() -> Any:
    return files("contilab.manifest") / "profiles"
