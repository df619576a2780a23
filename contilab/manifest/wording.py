"""The words in which a fault speaks of values and types: how a value is shown, what a type accepts, which name is near."""

import json
from collections.abc import Iterable
from datetime import date, time
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel

_SHOWN = 60  # characters of a value in a message; chosen
_WORDS = {str: "text", bool: "true or false", int: "an integer", float: "a number", Any: "any value"}
_KINDS: tuple[tuple[Any, str], ...] = (  # bool before int, which it is one of
    (bool, "a bool"),
    (str, "text"),
    (int, "an integer"),
    (float, "a float"),
    (list, "a list"),
    (dict, "a table"),
    ((date, time), "a date or time"),
)


class Pattern(str):
    """What a text must look like, in words; an annotation."""

    __slots__ = ()


def shown(value: Any, depth: int = 3) -> str:
    """Return *value* about as a manifest writes it, shortened."""
    text = _written(value, depth)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _written(value: Any, depth: int) -> str:
    match value:
        case bool() | str():
            return json.dumps(value, ensure_ascii=False)
        case int() if value.bit_length() > 512:  # Python refuses to print more than 4300 digits
            return f"an integer of {value.bit_length()} bits"
        case list() if depth:
            return f"[{', '.join(_written(item, depth - 1) for item in value[:9])}{', ...' if len(value) > 9 else ''}]"
        case dict() if depth:
            return "{" + ", ".join(f"{key} = {_written(item, depth - 1)}" for key, item in list(value.items())[:9]) + "}"
        case list() | dict():
            return "..."
    return str(value)


def kind(value: Any) -> str:
    """Return what sort of value *value* is, in words."""
    return next((words for sort, words in _KINDS if isinstance(value, sort)), type(value).__name__)


def accepts(hint: Any) -> str:
    """Return what the type *hint* accepts, in words.

    >>> accepts(Annotated[float, Ge(0), Lt(1)] | Literal["off"])
    'a number from 0 to below 1 or "off"'
    """
    base, metadata = _unwrapped(hint)
    words = next((str(item) for item in metadata if isinstance(item, Pattern)), "")
    if words:
        return words
    origin, inner = get_origin(base), get_args(base)
    if origin is Literal:
        return names(inner)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(accepts(item) for item in inner if item is not NoneType))
    if origin in (list, tuple):
        return f"a list, each item {accepts(inner[0])}"
    if isinstance(base, type) and issubclass(base, BaseModel):
        return "a table"
    return f"{_WORDS.get(base, 'a value')}{_range(base, metadata)}"


def names(known: Iterable[Any]) -> str:
    """Return the names *known* as a list in words: "a", "b" or "c"."""
    *first, last = [shown(name) for name in known] or ["nothing"]
    return f"{', '.join(first)} or {last}" if first else last


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name nearest to *name* as a question, or an empty text if none is near; ER is near to er."""
    folded = {one.casefold(): one for one in known}
    near = get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return f'did you mean "{folded[near[0]]}"? ' if near else ""


def nearest_key(key: str, known: Iterable[str]) -> str:
    """Return the known dotted keys nearest to *key* as a question: those that end alike, whatever their table, before others.

    >>> nearest_key("train.lr", ["train.batch", "optim.lr"])
    'did you mean "optim.lr"? '
    """
    known = list(known)
    alike = [one for one in known if one.rpartition(".")[2].casefold() == key.rpartition(".")[2].casefold()]
    return f"did you mean {names(alike)}? " if alike else nearest(key, known)


def _unwrapped(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(hint) is not Annotated:
        return hint, ()
    base, *metadata = get_args(hint)
    return base, tuple(metadata)


def _range(base: Any, metadata: Iterable[Any]) -> str:
    """Return the range that *metadata* leaves, in words; the last of several bounds of one kind is what holds."""
    bounds = {type(item): item for item in metadata if isinstance(item, (Ge, Gt, Le, Lt))}
    match bounds.get(Gt), bounds.get(Ge):
        case Gt(gt), _:
            low = f" above {gt}"
        case None, Ge(ge):
            low = f" from {ge}"
        case _:
            low = ""
    match bounds.get(Lt), bounds.get(Le):
        case Lt(int(lt)), _ if base is int:
            return f"{low} to {lt - 1}"
        case Lt(lt), _:
            return f"{low} to below {lt}"
        case None, Le(le):
            return f"{low} to {le}"
    return low.replace(" from ", " of at least ")
