from typing import Annotated, Literal

import pytest
from annotated_types import Ge, Gt, Le, Lt

from contilab.manifest.wording import accepts, nearest, shown


class TestWording:
    """Values, types and names in words."""

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (True, "true"),
            ("größe", '"größe"'),
            (float("nan"), "nan"),
            ([1, [2, [3, [4]]]], "[1, [2, [3, ...]]]"),
            ({"a": 1}, "{a = 1}"),
            (list(range(20)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, ...]"),
            ("x" * 100, '"' + "x" * 56 + "..."),
            (1 << 600, "an integer of 601 bits"),
        ],
    )
    def test_shown(self, value: object, text: str) -> None:
        """Values are shown about as a manifest writes them, however long or deep they are."""
        assert shown(value) == text

    @pytest.mark.parametrize(
        ("hint", "words"),
        [
            (int, "an integer"),
            (Annotated[int, Ge(1)], "an integer of at least 1"),
            (Annotated[int, Ge(0), Lt(10)], "an integer from 0 to 9"),
            (Annotated[float, Gt(0)], "a number above 0"),
            (Annotated[float, Ge(0), Le(1)], "a number from 0 to 1"),
            (Annotated[float, Ge(0), Lt(1)], "a number from 0 to below 1"),
            (bool, "true or false"),
            (Literal["a", "b", "c"], '"a", "b" or "c"'),
            (Annotated[int, Ge(1)] | Literal["all"], 'an integer of at least 1 or "all"'),
            (Annotated[float, Ge(0), "one"] | Annotated[float, Ge(0), "another"], "a number of at least 0"),
            (list[Annotated[int, Ge(1)]], "a list, each item an integer of at least 1"),
        ],
    )
    def test_accepts(self, hint: object, words: str) -> None:
        """Types and ranges are said in words."""
        assert accepts(hint) == words

    def test_nearest(self) -> None:
        """A near name is asked for, whatever the case of its letters; where none is near, nothing is."""
        assert nearest("strenght", ["strength", "decay"]) == 'did you mean "strength"? '
        assert nearest("zzz", ["strength", "decay"]) == ""
        assert nearest("Ewc", ["er", "ewc"]) == 'did you mean "ewc"? '
        assert nearest("bwt", ["A", "BWT"]) == 'did you mean "BWT"? '
