"""Which seeds are said to stand apart: how often by chance, and where the page says so."""

import numpy as np
import pytest
from scipy import stats

from contilab.report.benchmark import benchmarks
from contilab.report.cautions import Found, cautions
from contilab.report.protocol import Protocol
from contilab.report.runs import RunReport
from contilab.report.statistics.outlier import MARKED, MEANING, critical, outliers
from contilab.report.table import per_seed, seed_values
from contilab.spec.sections import Execution
from contilab.spec.study import Cell

APART, CLEAN = [0.8, 0.81, 0.79, 0.8, 0.2], [0.8, 0.81, 0.79, 0.8, 0.74]


def cells(size, count):
    """Return *count* cells of *size* normal values, and by how many sd the farthest of each lies off its mean."""
    values = np.random.default_rng(size).normal(size=(count, size))
    off = np.abs(values - values.mean(axis=1, keepdims=True)).max(axis=1) / values.std(axis=1, ddof=1)
    return values, off


class TestRate:
    """How often a clean cell is marked."""

    def test_it_is_what_is_stated_for_any_number_of_seeds(self):
        """Of cells of 3 to 20 normal values one in a hundred has a value beyond the bound."""
        rates = {size: float(np.mean(cells(size, 40_000)[1] > critical(size))) for size in range(3, 21)}

        # 4 standard errors of a share over 40,000 cells
        assert rates == pytest.approx(dict.fromkeys(rates, MARKED), abs=4 * np.sqrt(MARKED / 40_000))

    @pytest.mark.parametrize("spread", [1, 10])
    @pytest.mark.parametrize("size", [3, 4, 5])
    def test_ties_do_not_raise_it(self, size, spread):
        """Rounded to whole test samples, of which the spread is a few, no more cells are marked than are stated."""
        counts = np.round(np.random.default_rng(size).normal(500.3, spread, (500, size)))
        marked = [any(outliers(row)) for row in (counts / 1_000).tolist()]

        assert np.mean(marked) <= MARKED + 4 * np.sqrt(MARKED / 500)  # standard errors of a share over 500 cells

    @pytest.mark.parametrize("size", [3, 5, 12])
    def test_a_cell_is_marked_beyond_the_bound_only(self, size):
        """A cell has a mark exactly where its farthest value lies beyond the bound."""
        values, off = cells(size, 2_000)
        marked = [any(outliers(row)) for row in values.tolist()]

        assert marked == (off > critical(size)).tolist()
        assert 0 < sum(marked) < 60

    def test_the_bounds_are_those_of_the_table(self):
        """Two-sided at .01 they are the bounds of Grubbs (1969) for one side at .005, to his three decimals."""
        published = {3: 1.155, 4: 1.496, 5: 1.764, 6: 1.973, 7: 2.139, 8: 2.274, 9: 2.387, 10: 2.482, 20: 3.001}

        assert {size: round(critical(size), 3) for size in published} == published

    @pytest.mark.parametrize("size", [3, 7, 50])
    def test_scipy_agrees(self, size):
        """The bound is the value whose t has the upper tail .01 / (2 n)."""
        bound = critical(size)
        t = bound * np.sqrt(size * (size - 2) / ((size - 1) ** 2 - size * bound**2))

        assert 2 * size * stats.t.sf(t, size - 2) == pytest.approx(MARKED, rel=1e-6)  # t of three values magnifies rounding


class TestMarks:
    """Which values are marked."""

    @pytest.mark.parametrize(
        ("values", "marked"),
        [
            (APART, [4]),
            (CLEAN, []),
            ([0.95, 0.95, 0.9472], []),
            ([0.8, 0.8, 0.8, 0.8, 0.2], []),
            ([0.8, 0.8, 0.801, 0.801, 0.2], [4]),
            ([0.8, 0.8], []),
            ([0.8] * 6, []),
            ([0.1 + 0.2, 0.3, 0.3, 0.3], []),
            ([0.5, 0.51, 0.5, 0.52, 0.5, 0.49, 9.0, 90.0], [6, 7]),
            ([], []),
        ],
    )
    def test_by_hand(self, values, marked):
        """The farthest, again while there is one; not of two values, nor where all others tie, nor a spread that n allows."""
        assert [place for place, is_far in enumerate(outliers(values)) if is_far] == marked

    def test_without_scipy_there_are_none(self, monkeypatch):
        """Where scipy is not installed no value is marked, and the cautions say that none was looked for."""
        monkeypatch.setattr("contilab.report.statistics.outlier.find_spec", lambda _: None)

        assert outliers(APART) == [False] * 5
        assert told(APART)["Seeds that stand apart were not looked for"] == ("p: 1 cell",)


def benchmark(accs):
    """Return the benchmark of one cell."""
    facts = {"preset": "p", "benchmark": "b", "scenario": "class", "sweep": {}, "execution": Execution(), "runs": {}}
    cell = Cell(method="er", **facts)
    runs = [RunReport(cell, seed, str(seed), "finished", values={"acc": acc}) for seed, acc in enumerate(accs)]
    return benchmarks(runs)[0]


def told(accs):
    """Return the cautions of a cell by the beginning of their text."""
    found = Found(benchmark(accs), Protocol({}, {}), (), ())
    return {notice.text.split(":")[0]: notice.items for notice in cautions([found], ())}


class TestPages:
    """Where they are told of."""

    def test_a_mark_is_explained_below_its_table(self):
        """The table of seeds says what the mark means and how often it comes by chance; without a mark it does not."""
        marked, clean = (per_seed(benchmark(accs)) for accs in (APART, CLEAN))

        assert [line.entries[2].detail for line in marked.lines] == ["", "", "", "", "outlier"]
        assert ("", MEANING) in marked.notes
        assert ("", MEANING) not in clean.notes

    def test_a_caution_names_cell_and_seed(self):
        """The seed stands among what to mind, with the cell that it is of."""
        assert told(APART)["Seeds that stand apart"] == ("p: er, acc of seed 4",)
        assert "Seeds that stand apart" not in told(CLEAN)

    def test_a_tooltip_marks_the_seed(self):
        """The values behind a mean carry the mark."""
        assert seed_values(dict(enumerate(APART)), "{:.2f}".format).splitlines()[3:] == [
            "seed 3: 0.80",
            "seed 4: 0.20 (outlier)",
        ]
