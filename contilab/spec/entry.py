"""An entry of the catalog: what a name of the manifest stands for.

Every plugin module (a strategy, model, optimiser, benchmark or memory policy: one file, named as the manifest names it)
ends with `ENTRY = Entry(...)`; one line of `contilab.catalog` points at it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class NoSettings:
    """For entries that have nothing to set."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What the planner, `contilab list` and the engine need to know of a plugin.

    settings: a frozen keyword-only dataclass; its fields are the keys of the manifest, annotated with ranges, `Doc` and
    `PER_MEMBER` where an ensemble takes them per member. make(settings, ...) builds the plugin from an instance of
    *settings*; the contract of its kind tells the further arguments. numerics: tag such as "ewc/1", raised when the plugin's
    numbers change. summary: the rule in one paragraph whose first sentence is its one-line form. uses_memory: the `memory`
    table of the manifest applies. memory: what the plugin accepts of that table, by key; the first value is its default.
    scenarios: those in which it is defined. narrowed: choices defined in fewer of them, scenarios by setting and value.
    """

    make: Callable[..., Any]
    numerics: str
    summary: str
    settings: type = NoSettings
    paper: str = ""
    uses_memory: bool = False
    memory: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scenarios: tuple[str, ...] = ("task", "class", "domain")
    narrowed: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)


def load(reference: str) -> object:
    """Return what *reference*, "module:name", points at.

    >>> load("math:pi")
    3.141592653589793
    """
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)
