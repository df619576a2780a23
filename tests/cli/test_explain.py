"""Entries of the menu in words."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Gt, Lt

from contilab.cli.explain import explain
from contilab.spec.entry import Entry
from contilab.spec.fields import PER_MEMBER, Doc


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of every kind."""

    strength: Annotated[float, Gt(0), Lt(5), Doc("how much"), PER_MEMBER]
    layers: Annotated[tuple[int, ...], Doc("widths")] = (4, 4)
    kind: Literal["a", "b"] = "a"
    limit: int | None = None


class TestExplain:
    """One entry as text."""

    def test_everything_is_there(self):
        """Summary, every setting with default, range and meaning, and the paper."""
        entry = Entry(
            make=print, numerics="x/1", summary="Does x. And\n  more.", settings=Settings, paper="X 2020", uses_memory=True
        )
        text = explain("method", "x", entry)

        assert text.startswith("x (method)\n\nDoes x. And more.")
        for part in (
            "method.strength  (needed)  a number above 0 to below 5",
            "how much; may differ",
            "a list, each item an integer",
            "[4, 4]",
            "paper: X 2020",
            "memory.total",
        ):
            assert part in text

    def test_no_settings(self):
        """An entry without settings shows no table."""
        assert explain("method", "x", Entry(make=print, numerics="x/1", summary="Does x.")) == "x (method)\n\nDoes x."
