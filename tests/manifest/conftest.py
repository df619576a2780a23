"""A small menu, so that these tests hold whatever the catalog offers."""

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from annotated_types import Ge

from contilab.manifest.menu import Menu
from contilab.manifest.resolve import Resolved, resolve
from contilab.spec.entry import Entry, NoSettings
from contilab.spec.fields import PER_MEMBER, Doc
from contilab.spec.sections import NotNegative, Positive


@dataclass(frozen=True, kw_only=True)
class Perceptron:
    """A model with a list."""

    hidden: Annotated[tuple[Annotated[int, Ge(1)], ...], Doc("units of each hidden layer")] = (400, 400)


@dataclass(frozen=True, kw_only=True)
class Descent:
    """An optimiser that refuses a combination."""

    lr: Annotated[Positive, Doc("learning rate"), PER_MEMBER] = 0.1
    momentum: Annotated[NotNegative, Doc("share of the velocity")] = 0.0
    nesterov: Annotated[bool, Doc("look ahead")] = False
    clip_norm: Annotated[Positive | Literal["off"], Doc("largest norm of the gradient")] = "off"

    def __post_init__(self) -> None:
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov = true needs momentum above 0, and momentum is 0")


@dataclass(frozen=True, kw_only=True)
class Adaptive:
    """Another optimiser, without momentum."""

    lr: Annotated[Positive, Doc("learning rate"), PER_MEMBER] = 0.001


@dataclass(frozen=True, kw_only=True)
class Springs:
    """A method with a strength."""

    strength: Annotated[NotNegative, Doc("weight of the penalty"), PER_MEMBER] = 30.0


@dataclass(frozen=True, kw_only=True)
class Grown:
    """A method that must be told something."""

    growth: Annotated[float, Doc("has no default")]


@dataclass(frozen=True, kw_only=True)
class Counted:
    """A method whose strength is of another type."""

    strength: Annotated[int, Ge(1), Doc("a whole number here")] = 3


def _entry(name: str, settings: type = NoSettings, *, uses_memory: bool = False) -> Entry:
    return Entry(make=settings, settings=settings, numerics=f"{name}/1", summary=name, uses_memory=uses_memory)


ENTRIES = {
    "benchmark": {name: _entry(name) for name in ("split_digits", "split_fmnist", "split_mnist", "synthetic")},
    "model": {"mlp": _entry("mlp", Perceptron)},
    "optim": {"adam": _entry("adam", Adaptive), "sgd": _entry("sgd", Descent)},
    "method": {
        "count": _entry("count", Counted),
        "er": _entry("er", uses_memory=True),
        "ewc": _entry("ewc", Springs),
        "grow": _entry("grow", Grown),
        "naive": _entry("naive"),
    },
}

HEAD = """name = "study"
profile = "cpu"

[matrix]
preset = ["split_mnist_class"]
method = {methods}
seed = [0, 1]
"""


class Manifest:
    """Writes small manifests and resolves them against the menu of these tests."""

    menu = Menu({kind: tuple(sorted(names)) for kind, names in ENTRIES.items()}, lambda kind, name: ENTRIES[kind][name])

    def resolve(self, text: str, *values: str) -> Resolved:
        """Resolve *text*, the whole manifest."""
        return resolve(text, place="m.toml", values=values, menu=self.menu)

    def of(self, body: str, *values: str, methods: str = '["naive"]') -> Resolved:
        """Resolve a manifest of *methods* that goes on with *body* after its matrix."""
        return self.resolve(HEAD.format(methods=methods) + body, *values)


@pytest.fixture
def manifest() -> Manifest:
    """Return what writes and resolves small manifests."""
    return Manifest()
