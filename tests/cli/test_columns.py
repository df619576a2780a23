"""Aligned columns."""

from contilab.cli.columns import columns


class TestColumns:
    """Rows as aligned text."""

    def test_alignment(self):
        """Text is flush left, the named columns flush right, and lines have no trailing blanks."""
        assert columns([["method", "acc"], ["er", 91.5]], right=[1]) == "method   acc\ner      91.5"
        assert columns([["a", "bbb"], ["aa", "b"]]) == "a   bbb\naa  b"
