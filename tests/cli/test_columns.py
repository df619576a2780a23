"""Aligned columns."""

from contilab.cli.columns import columns


class TestColumns:
    """Rows as aligned text."""

    def test_alignment(self):
        """Text is flush left, the named columns flush right, and lines have no trailing blanks."""
        assert columns([["method", "acc"], ["er", 91.5]], right=[1]) == "method   acc\ner      91.5"
        assert columns([["a", "bbb"], ["aa", "b"]]) == "a   bbb\naa  b"

    def test_width(self):
        """Where the lines are longer than the width, the widest column is folded and the others stay whole, if they can."""
        rows = [["", "lr", 0.1, "how far a step goes [0, 1]"], ["", "batch", 64, "samples"]]

        assert columns(rows, right=[2], width=80) == columns(rows, right=[2])
        assert columns(rows, right=[2], width=26) == (
            "  lr     0.1  how far a\n              step goes\n              [0, 1]\n  batch   64  samples"
        )
        assert columns([["a_long_name", "so so"], ["b", "so"]], width=16).splitlines() == [
            "a_long_name  so",
            "             so",
            "b            so",
        ]
        assert columns([["a_long_name", "so"], ["b", "so"]], width=8).splitlines()[0].endswith("so")
