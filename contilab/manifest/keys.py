"""The keys of a run's settings: type, default and meaning of each dotted key, read from the specification and the menu.

Nothing is written down twice: shared tables are the dataclasses of `contilab.spec.sections`, a plugin's own keys are the
fields of its entry's settings. Types become those of TOML: tuples are lists, integers are accepted as floats up to
2^53 and have 64 bits.
"""

from dataclasses import MISSING, fields
from functools import cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import BeforeValidator, ConfigDict, TypeAdapter
from pydantic_core import PydanticCustomError

from contilab.manifest.menu import Menu
from contilab.spec.canonical import INTEGERS
from contilab.spec.fields import Doc
from contilab.spec.sections import Benchmark, Eval, Execution, Memory, Numerics, Train

SHARED: dict[str, tuple[type, ...]] = {
    "benchmark": (Benchmark,),
    "train": (Train,),
    "memory": (Memory,),
    "eval": (Eval,),
    "engine": (Numerics, Execution),
}
PLUGINS = ("model", "optim", "method")
SECTIONS = (*SHARED, *PLUGINS)
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())
RIVALS = {
    "train.epochs": "train.steps",
    "train.steps": "train.epochs",
    "memory.total": "memory.per_class",
    "memory.per_class": "memory.total",
}  # exactly one of two is set: a later one replaces an earlier other
NO_AXES = frozenset(f"engine.{field.name}" for field in fields(Execution))  # change no number, so cannot vary in a study

_EXACT = 2**53  # every integer up to here is exactly one float


class Key(NamedTuple):
    """One setting: its type as pydantic checks it, its default (MISSING if it must be given) and its meaning."""

    hint: Any
    default: Any
    doc: str


def named_keys(menu: Menu) -> dict[str, Key]:
    """Return the keys that hold a name of the menu. `method.name` is no setting: methods are an axis of the matrix."""
    return {
        f"{kind}.name": Key(Literal[menu.names[kind]], MISSING, f"{kind} of the catalog")
        for kind in ("benchmark", "model", "optim")
    }


@cache
def shared_keys() -> dict[str, Key]:
    """Return the keys of the shared tables, by dotted key, without `benchmark.name`."""
    found = {
        f"{table}.{short}": key
        for table, kinds in SHARED.items()
        for kind in kinds
        for short, key in settings_keys(kind).items()
    }
    return {key: value for key, value in found.items() if key != "benchmark.name"}


def plugin_keys(menu: Menu, kind: str, name: str) -> dict[str, Key]:
    """Return the dotted keys that only the plugin *name* of *kind* knows."""
    return {f"{kind}.{short}": key for short, key in settings_keys(menu.entry(kind, name).settings).items()}


def known_keys(menu: Menu, used: dict[str, tuple[str, ...]]) -> dict[str, Key]:
    """Return every key that a manifest may set which uses the plugins *used* (names per kind).

    A key that several plugins know accepts what one of them accepts; each run's own plugin decides later.
    """
    own: dict[str, list[Key]] = {}
    for kind, names in used.items():
        for name in names:
            for key, value in plugin_keys(menu, kind, name).items():
                own.setdefault(key, []).append(value)
    return {**named_keys(menu), **shared_keys(), **{key: _either(several) for key, several in own.items()}}


@cache
def settings_keys(settings: type) -> dict[str, Key]:
    """Return the fields of the dataclass *settings* as keys, in their order."""
    hints = get_type_hints(settings, include_extras=True)
    return {field.name: Key(_strict(hints[field.name]), _default(field), _doc(hints[field.name])) for field in fields(settings)}


@cache
def adapter(hint: Any) -> TypeAdapter[Any]:
    """Return what checks values of the type *hint*."""
    return TypeAdapter(hint, config=ConfigDict(strict=True, allow_inf_nan=False))


def _default(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _doc(hint: Any) -> str:
    metadata = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((item.text for item in metadata if isinstance(item, Doc)), "")


def _either(several: list[Key]) -> Key:
    hints = list(dict.fromkeys(key.hint for key in several))
    docs = "; ".join(dict.fromkeys(key.doc for key in several))
    return several[0]._replace(hint=reduce(or_, hints), doc=docs) if len(hints) > 1 else several[0]


def _strict(hint: Any) -> Any:
    """Return *hint* as TOML can fill it: lists for tuples, nothing for None, exact floats, integers of 64 bits."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:  # the exact check goes outermost: inside, pydantic could not tell the range to the JSON schema
        base, *own = get_args(_strict(inner[0])) if inner[0] in (int, float) else (_strict(inner[0]),)
        return Annotated[base, *inner[1:], *own]
    if origin in (Union, UnionType):
        return reduce(or_, [_strict(item) for item in inner if item is not NoneType])
    if origin in (list, tuple):
        return list[_strict(inner[0])]  # type: ignore[misc]
    if hint is float:
        return Annotated[float, BeforeValidator(_exact)]
    return Annotated[int, BeforeValidator(_of_64_bits)] if hint is int else hint


def _exact(value: Any) -> Any:
    if isinstance(value, int) and abs(value) > _EXACT:
        raise PydanticCustomError("inexact", "beyond 2^53")
    return value


def _of_64_bits(value: Any) -> Any:
    if isinstance(value, int) and value not in INTEGERS:
        raise PydanticCustomError("too_big", "does not fit in 64 bits")
    return value
