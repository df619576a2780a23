"""Canonical typed JSON and the content addresses made from it.

Two values have the same address exactly if they are the same typed value: keys sorted by code point, text in
Unicode NFC, no spaces, the shortest float text that reads back the same. Never pickle, never the language's hash.
"""

import hashlib
import json
import math
import unicodedata
from collections.abc import Mapping
from typing import Any

INTEGERS = range(-(2**63), 2**63)  # signed 64 bits: what every reader of JSON lines and TOML can hold


def canonical(value: Any) -> bytes:
    """Return the canonical UTF-8 JSON of *value*.

    Raises ValueError, naming the path, for types other than text, bool, integer, float, list and table, for nan and
    infinities, for integers beyond 64 bits, and for two keys that are equal in NFC.

    >>> canonical({"b": -0.0, "a": [1, True, "é"]}).decode()
    '{"a":[1,true,"é"],"b":0.0}'
    """
    plain = _plain(value, "")
    return json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest(value: Any) -> str:
    """Return the SHA-256, in hex, of the canonical form of *value*."""
    return hashlib.sha256(canonical(value)).hexdigest()


def _plain(value: Any, path: str) -> Any:
    match value:
        case bool():
            return value
        case int():
            if value not in INTEGERS:
                raise ValueError(f"{path or 'value'}: the integer {value} does not fit in 64 bits")
            return value
        case float():
            if not math.isfinite(value):
                raise ValueError(f"{path or 'value'}: {value} is not a finite number")
            return value + 0.0  # -0.0 becomes 0.0
        case str():
            return unicodedata.normalize("NFC", value)
        case list() | tuple():
            return [_plain(item, f"{path}[{index}]") for index, item in enumerate(value)]
        case Mapping():
            return _plain_table(value, path)
    raise ValueError(f"{path or 'value'}: {type(value).__name__} has no canonical form")


def _plain_table(table: Mapping[Any, Any], path: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, item in table.items():
        if not isinstance(key, str):
            raise ValueError(f"{path or 'value'}: the key {key!r} is not text")
        name = unicodedata.normalize("NFC", key)
        if name in out:
            raise ValueError(f"{path or 'value'}: two keys are the same text {name!r}")
        out[name] = _plain(item, f"{path}.{name}" if path else name)
    return out
