"""Claims about entries of the catalog and the numerics tags made from them."""

import pytest

from contilab.spec.entry import Entry, NoSettings
from contilab.spec.numerics import ENGINE, numerics_tags

ENTRIES = {("model", "mlp"): Entry(make=dict, numerics="mlp/1", summary="A perceptron.")}


class TestNumericsTags:
    """A run names the version of everything that decides its numbers."""

    def test_tags(self):
        """The engine and each plugin give their tag."""
        tags = numerics_tags(lambda kind, name: ENTRIES[kind, name], {"model": "mlp"})

        assert tags == {"engine": ENGINE, "model": "mlp/1"}

    def test_unknown_name(self):
        """A name that the catalog does not have is an error."""
        with pytest.raises(KeyError):
            numerics_tags(lambda kind, name: ENTRIES[kind, name], {"model": "mlpp"})

    def test_an_entry_without_settings(self):
        """An entry has nothing to set unless it says so."""
        assert ENTRIES["model", "mlp"].settings is NoSettings
