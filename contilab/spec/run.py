"""A run: one resolved configuration and one seed, and the address of both."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from contilab.spec.canonical import digest
from contilab.spec.sections import (
    ADDED_LATER,
    Benchmark,
    Data,
    Eval,
    Memory,
    Numerics,
    Plugin,
    Train,
    plugin_from,
    table,
)

SCHEME = "contilab.run/1"  # raised when the canonical form or the meaning of a field changes

_TYPED = {"benchmark": Benchmark, "data": Data, "train": Train, "memory": Memory, "eval": Eval, "engine": Numerics}


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything that decides the numbers of one run. *memory* is None for methods without replay memory.

    *numerics* names, per part ("engine", "method", "model", "optim", "benchmark", "memory"), the version of its numbers.
    """

    benchmark: Benchmark
    data: Data
    model: Plugin
    optim: Plugin
    train: Train
    method: Plugin
    memory: Memory | None
    eval: Eval
    engine: Numerics
    numerics: dict[str, str] = field(default_factory=dict)
    seed: int

    @cached_property
    def config(self) -> dict[str, Any]:
        """The scientific configuration as plain tables, without the seed."""
        sections = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in ("seed", "numerics")}
        config = {name: _without_late_defaults(name, section) for name, section in sections.items() if section is not None}
        return {**config, "numerics": dict(self.numerics)}

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The run as it is addressed and stored: scheme tag, configuration, seed."""
        return {"v": SCHEME, "config": self.config, "seed": self.seed}

    @cached_property
    def rid(self) -> str:
        """The address of the run: SHA-256 in hex of its canonical specification."""
        return digest(self.spec)


def run_from(spec: Mapping[str, Any]) -> Run:
    """Return the run that *spec* (the content of `runs/<rid>.json`) describes.

    Raises ValueError for another scheme and KeyError or TypeError for missing or unknown keys.
    """
    if spec.get("v") != SCHEME:
        raise ValueError(f"the scheme is {spec.get('v')!r}, this version reads {SCHEME!r}")
    config = dict(spec["config"])
    sections: dict[str, Any] = {name: kind(**config.pop(name)) for name, kind in _TYPED.items() if name in config}
    sections |= {name: plugin_from(config.pop(name)) for name in ("model", "optim", "method")}
    return Run(**{"memory": None, **sections, **config, "seed": spec["seed"]})


def _without_late_defaults(name: str, section: Any) -> dict[str, Any]:
    values = table(section)
    late = {key for where, key in ADDED_LATER if where == name}
    defaults = {item.name: item.default for item in fields(section) if item.name in late}
    return {key: value for key, value in values.items() if key not in defaults or value != defaults[key]}
