"""Turn what pydantic found into faults: the key path, what is wrong with the value, what is accepted, the nearest name."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ValidationError

from contilab.errors import Fault
from contilab.manifest.keys import NO_AXES, SECTIONS
from contilab.manifest.wording import accepts, kind, names, nearest, nearest_key, shown

_TYPE_FAULTS = ("_type", "literal_error")  # of a union, the branch whose type fits says more than these
_OF_METHODS = ("method_overrides", "method_sweep")  # tables of which one without memory has no keys of it
_FEW = 12  # keys that a message lists; chosen
_WHY = {
    "inexact": "is an integer beyond 2^53, which no float holds exactly",
    "too_big": "does not fit in 64 bits",
    "finite_number": "is not a finite number",
    "too_short": "is empty",
    "string_pattern_mismatch": "is not of the accepted form",
}


class Spot(NamedTuple):
    """Where in a model an error lies: its path, the type there, and the keys that the innermost table has."""

    path: tuple[str | int, ...]
    hint: Any
    keys: tuple[str, ...]


def faults_of(
    error: ValidationError,
    model: type[BaseModel],
    place: Callable[[tuple[str | int, ...]], str],
    owners: Mapping[str, list[str]],
) -> list[Fault]:
    """Return one fault per key that *error* names.

    *place* turns a path into the place of a fault; *owners*: plugins of the menu per dotted key, for keys that only plugins
    know which the manifest does not use.
    """
    found: dict[tuple[str | int, ...], tuple[Spot, list[Any]]] = {}
    for item in error.errors(include_url=False, include_context=True):
        spot = spot_of(model, item["loc"])
        found.setdefault(spot.path, (spot, []))[1].append(item)
    return [Fault(place(path), *_words(spot, _telling(items), owners)) for path, (spot, items) in found.items()]


def value_fault(error: ValidationError, hint: Any, place: str) -> Fault:
    """Return the fault of one value that the type *hint* refuses."""
    items: list[Any] = list(error.errors(include_url=False))
    index = next((part for part in items[0]["loc"] if isinstance(part, int)), None)
    return Fault(place if index is None else f"{place}[{index}]", *_words(Spot((), hint, ()), _telling(items), {}))


def spot_of(model: Any, location: tuple[str | int, ...]) -> Spot:
    """Return where *location*, pydantic's path with its marks of union branches, lies in *model*."""
    path: list[str | int] = []
    hint: Any = model
    keys: tuple[str, ...] = ()
    for part in location:
        if isinstance(part, int):
            path.append(part)
            hint = _item(hint)
        elif isinstance(hint, type) and issubclass(hint, BaseModel):
            path.append(part)
            by_key = {str(field.alias): field for field in hint.model_fields.values()}
            keys = tuple(by_key)
            field = by_key.get(part)
            hint = (
                None if field is None else Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
            )
    return Spot(tuple(path), hint, keys)


def path_text(path: tuple[str | int, ...]) -> str:
    """Return *path* as people write it.

    >>> path_text(("matrix", "seed", 1)), path_text(("overrides", ""))
    ('matrix.seed[1]', 'overrides.""')
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part or chr(34) * 2}"
    return text[1:]


def _item(hint: Any) -> Any:
    for part in _parts(hint):
        if get_origin(part) is list:
            return get_args(part)[0]
    return hint


def _parts(hint: Any) -> Iterator[Any]:
    if get_origin(hint) is Annotated:
        yield from _parts(get_args(hint)[0])
    elif get_origin(hint) in (list, Literal) or not get_args(hint):
        yield hint
    else:
        for inner in get_args(hint):
            yield from _parts(inner)


def _telling(items: list[Any]) -> Any:
    """Return the error of a union's branches that says most: the one of the branch whose type fits."""
    return next((item for item in items if not item["type"].endswith(_TYPE_FAULTS)), items[0])


def _words(spot: Spot, item: Any, owners: Mapping[str, list[str]]) -> tuple[str, str]:
    """Return the problem and the hint of one error."""
    value, fault = item["input"], item["type"]
    if fault == "extra_forbidden":
        return _unknown(spot, str(item["loc"][-1]), owners)
    accepted = accepts(spot.hint)
    if fault == "missing":
        return "the key is missing", f"it takes {accepted}"
    known = _literals(spot.hint)
    if known and isinstance(value, str):
        return f"{shown(value)} is not known", f"{nearest(value, known)}accepted: {accepted}"
    return f"{shown(value)} {_why(fault, value, item['msg'])}", f"accepted: {accepted}"


def _why(fault: str, value: Any, message: str) -> str:
    if fault in _WHY:
        return _WHY[fault]
    if fault == "repeated":
        return f"repeats itself: {message}"
    return f"is {kind(value)}" if fault.endswith(_TYPE_FAULTS) else "is out of range"


def _literals(hint: Any) -> tuple[str, ...]:
    return tuple(
        value for part in _parts(hint) if get_origin(part) is Literal for value in get_args(part) if isinstance(value, str)
    )


def _unknown(spot: Spot, key: str, owners: Mapping[str, list[str]]) -> tuple[str, str]:
    table = spot.path[0] if len(spot.path) > 1 else ""
    if key in owners:
        return (
            f"the key belongs to {names(owners[key])}, which the manifest does not use here",
            "remove it, or use what it belongs to",
        )
    if key in NO_AXES:
        return "the key changes no number, so it is no axis of a study", "set it once, in overrides"
    if table and key in ("preset", "method", "seed", "method.name"):
        return "the key is an axis of the matrix", f"list its values in matrix.{key.removesuffix('.name')}"
    if not table and key.partition(".")[0] in SECTIONS:
        return "settings of runs do not stand at the top", "write them into the table overrides"
    if table in _OF_METHODS and key.startswith("memory.") and not any(known.startswith("memory.") for known in spot.keys):
        return f"{spot.path[1]} uses no memory", "remove it, or give it to a method that replays"
    return "unknown key" if key else "the key is empty", _known_keys(nearest_key(key, spot.keys), spot.keys)


def _known_keys(near: str, known: tuple[str, ...]) -> str:
    """Return the way out of an unknown key: *near*, a question or "", and what else there is; dozens of names hide it."""
    if len(known) > _FEW:
        return f"{near}contilab list shows all"
    return near.strip() or f"accepted: {names(known)}"
