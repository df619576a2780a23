"""The example of `contilab.report.load` for pandas, where pandas is installed, and what polars makes of the rows."""

import dataclasses
import doctest

import pytest

from contilab.report import load


@pytest.fixture
def in_its_place(new_study, monkeypatch):
    """The study of the example, in a store where the example looks for it."""
    cells = [("split_digits_class", method, [0, 1], {}, "class") for method in ("naive", "er")]
    store = new_study(cells)
    store.add_study(dataclasses.replace(store.study("tiny"), name="digits"))
    monkeypatch.chdir(store.root.parent)


class TestExample:
    """The docstring."""

    def test_it_holds(self, in_its_place):
        """Every line of it runs, and prints what it says."""
        pytest.importorskip("pandas", reason="pandas is not installed")
        example = doctest.DocTestParser().get_doctest(load.__doc__ or "", {"load": load}, "load", None, None)
        found = doctest.DocTestRunner().run(example)

        assert (found.failed, found.attempted) == (0, 4)

    def test_polars_takes_the_rows_alike(self, in_its_place):
        """The same rows make the same means there."""
        polars = pytest.importorskip("polars", reason="polars is not installed")
        chosen = polars.DataFrame(load("store", "digits")).filter(polars.col("selected"))
        means = chosen.group_by("method").agg(polars.col("acc").mean().round(2)).rows()

        assert dict(means) == {"er": 0.79, "naive": 0.35}
