"""The form of a manifest as one pydantic model, built from the menu: it validates, and it is the JSON schema."""

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

from annotated_types import MinLen
from pydantic import AfterValidator, BaseModel, Field, create_model
from pydantic_core import PydanticCustomError

from contilab.manifest.commandline import PLACE
from contilab.manifest.document import BENCHMARK
from contilab.manifest.keys import NO_AXES, STRICT, Key, known_keys
from contilab.manifest.menu import Menu
from contilab.manifest.profile import profile_names
from contilab.manifest.wording import Pattern, shown
from contilab.spec.entry import Entry
from contilab.spec.sections import Seed
from contilab.spec.study import NAME

DEFAULT_PROFILE = "cpu"
Used = dict[str, tuple[str, ...]]  # names of plugins, per kind

_NAME_WORDS = Pattern("1 to 40 of a-z, 0-9, dot, underscore and hyphen, a letter or digit first")


class _Slot(NamedTuple):
    hint: Any
    doc: str
    default: Any = None  # ... if it must be given


def form(menu: Menu, presets: Sequence[str], used: Used, sweeps: Sequence[str]) -> type[BaseModel]:
    """Return the model of manifests that use *presets* and the plugins *used*; `method_sweep` may hold the methods *sweeps*."""
    return _form(tuple(menu.names.items()), menu.entry, tuple(presets), tuple(used.items()), tuple(sweeps))


@lru_cache(maxsize=16)  # it takes pydantic a tenth of a second, and manifests that are planned one after the other are alike
def _form(
    menu_names: tuple[tuple[str, tuple[str, ...]], ...],
    entry: Callable[[str, str], Entry],
    presets: tuple[str, ...],
    used_names: tuple[tuple[str, tuple[str, ...]], ...],
    sweeps: tuple[str, ...],
) -> type[BaseModel]:
    menu, used = Menu(dict(menu_names), entry), dict(used_names)
    keys = known_keys(menu, used)
    settings = _model("settings", {key: _Slot(value.hint, value.doc) for key, value in keys.items()})
    axes = _axes(keys)
    by_method = {
        name: _Slot(_model(f"sweep_{name}", _axes(_keys_of(menu, name, used))), f"variants of {name}") for name in sweeps
    }
    by_preset = {name: _Slot(settings, f"settings of {name}") for name in presets}
    own = {name: _overrides(menu, name, used, presets) for name in used["method"]}
    slots = {
        "name": _Slot(Annotated[str, Field(pattern=f"^{NAME}$"), _NAME_WORDS], "name of the study", ...),
        "profile": _Slot(Literal[profile_names()], "defaults and presets", DEFAULT_PROFILE),
        BENCHMARK: _Slot(_model(BENCHMARK, _benchmark(menu, keys)), "what every run learns, whatever its preset says"),
        "matrix": _Slot(_model("matrix", {**_required_axes(menu, presets), **axes}), "every combination is a cell", ...),
        "overrides": _Slot(settings, "settings of every run"),
        "sweep": _Slot(_model("sweep", axes), "variants of every method"),
        "method_sweep": _Slot(_model("method_sweep", by_method), "variants of one method"),
        "preset_overrides": _Slot(_model("preset_overrides", by_preset), "settings of one preset"),
        "method_overrides": _Slot(_model("method_overrides", own), "settings of one method, or of one in one preset"),
        PLACE: _Slot(settings, "key=value"),
    }
    return _model("manifest", slots)


def _benchmark(menu: Menu, keys: dict[str, Key]) -> dict[str, _Slot]:
    own = {
        key.partition(".")[2]: _Slot(value.hint, value.doc) for key, value in keys.items() if key.startswith(f"{BENCHMARK}.")
    }
    source = _Slot(Literal[menu.names["benchmark"]], 'benchmark of the catalog; "npz" is data of your own')
    return {"source": source, **{key: slot for key, slot in own.items() if key != "name"}}


def _keys_of(menu: Menu, method: str, used: Used) -> dict[str, Key]:
    keys = known_keys(menu, {**used, "method": (method,)})
    if menu.entry("method", method).uses_memory:
        return keys
    return {key: value for key, value in keys.items() if not key.startswith("memory.")}


def _overrides(menu: Menu, method: str, used: Used, presets: Sequence[str]) -> _Slot:
    """Return the slot of the settings of *method*, in which each of *presets* may have a table of its own."""
    slots = {key: _Slot(value.hint, value.doc) for key, value in _keys_of(menu, method, used).items()}
    inner = _model(f"settings_{method}_in_one", slots)
    by_preset = {name: _Slot(inner, f"settings of {method} in {name}") for name in presets}
    return _Slot(_model(f"settings_{method}", {**slots, **by_preset}), f"settings of {method}")


def _required_axes(menu: Menu, presets: Sequence[str]) -> dict[str, _Slot]:
    return {
        "preset": _Slot(_list_of(Literal[tuple(presets)]), "presets of the profile", ...),
        "method": _Slot(_list_of(Literal[menu.names["method"]]), "methods of the catalog", ...),
        "seed": _Slot(_list_of(Seed), "decides initial weights, data order and replay", ...),
    }


def _axes(keys: dict[str, Key]) -> dict[str, _Slot]:
    return {key: _Slot(_list_of(value.hint), value.doc) for key, value in keys.items() if key not in NO_AXES}


def _list_of(hint: Any) -> Any:
    return Annotated[list[hint], MinLen(1), AfterValidator(_distinct)]


def _model(name: str, slots: dict[str, _Slot]) -> type[BaseModel]:
    """Return the model whose keys are *slots*; keys such as "optim.lr" are aliases, as Python has no such names."""
    fields: dict[str, Any] = {
        f"key{index}": (slot.hint, Field(slot.default, alias=key, description=slot.doc))
        for index, (key, slot) in enumerate(slots.items())
    }
    return create_model(name, __config__=STRICT, **fields)


def _distinct(values: list[Any]) -> list[Any]:
    seen: set[str] = set()
    for value in values:
        text = json.dumps(value, sort_keys=True)
        if text in seen:
            raise PydanticCustomError("repeated", "{value} stands twice in it", {"value": shown(value)})
        seen.add(text)
    return values
