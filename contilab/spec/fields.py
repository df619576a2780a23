"""What a field of the specification says about itself: its meaning, and whether members of one ensemble may differ.

Both are plain annotations, so the specification needs no validation library; `contilab.manifest` reads them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Doc:
    """The meaning of a field in one clause, with its unit."""

    text: str


@dataclass(frozen=True)
class PerMember:
    """Marks a float that an ensemble takes per member, so that runs differing in it can be trained together.

    *apart*: a value that leaves something out of a step. Runs with it are trained apart from others, and pay nothing for it.
    """

    apart: float | None = None


PER_MEMBER = PerMember()
PER_MEMBER_UNLESS_ZERO = PerMember(apart=0.0)


@cache  # a plan asks for every cell, and reading type hints takes 0.1 ms
def markers(settings: type, name: str) -> tuple[Any, ...]:
    """Return the annotations of the field *name* of the dataclass *settings*."""
    hint = get_type_hints(settings, include_extras=True)[name]
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


@cache
def per_member(settings: type) -> tuple[str, ...]:
    """Return the names of the fields of *settings* that are taken per member."""
    return tuple(_markers_per_member(settings))


def in_common(settings: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of *values*, by name of the field, runs have in common that are trained together."""
    marked = _markers_per_member(settings)
    fixed = {name: value for name, value in values.items() if name not in marked}
    apart = {name: marker.apart for name, marker in marked.items() if marker.apart is not None}
    return fixed | {name: values[name] == value for name, value in apart.items() if name in values}


def values_per_member(settings: object) -> dict[str, Any]:
    """Return what *settings*, an instance of a settings dataclass, say of the fields that are taken per member."""
    kind: type = type(settings)
    return {name: getattr(settings, name) for name in per_member(kind)}


@cache
def _markers_per_member(settings: type) -> dict[str, PerMember]:
    found = {field.name: markers(settings, field.name) for field in fields(settings)}
    return {name: marker for name, several in found.items() for marker in several if isinstance(marker, PerMember)}
