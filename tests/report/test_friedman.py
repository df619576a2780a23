"""Ranks of methods across benchmarks, Friedman's test and the critical difference: by hand, by integration, against scipy."""

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from contilab.report.statistics.ranks import critical_difference, friedman, ranking

EXACT = 1e-12  # two ways to one exact number differ by rounding only


def within(width, methods):
    """Return the chance that *methods* standard normal values span at most *width*, by its integral."""

    def lowest_at(low):
        return np.exp(-low * low / 2) / np.sqrt(2 * np.pi) * (special.ndtr(low + width) - special.ndtr(low)) ** (methods - 1)

    return methods * integrate.quad(lowest_at, -12, 12, epsabs=1e-13)[0]


class TestRanks:
    """Methods across benchmarks."""

    @pytest.mark.parametrize(
        ("methods", "q"),
        [
            *[(2, 1.960), (3, 2.344), (4, 2.569), (5, 2.728), (6, 2.850), (7, 2.948), (8, 3.031), (9, 3.102), (10, 3.164)],
            *[(12, 3.268), (14, 3.354), (16, 3.426)],
        ],
    )
    def test_critical_values(self, methods, q):
        """The critical difference uses q of the published table, to its three digits (its last one is rounded or cut)."""
        found = critical_difference(methods, 6) / np.sqrt(methods * (methods + 1) / 36)

        assert found == pytest.approx(q, abs=0.0011)

    @pytest.mark.parametrize("methods", [2, 3, 5, 10, 16])
    def test_q_is_the_quantile_of_the_range(self, methods):
        """The root of 2 times q is where the range of so many standard normal values has 95 % of its chance."""
        found = critical_difference(methods, 6) / np.sqrt(methods * (methods + 1) / 36)
        quantile = optimize.brentq(lambda width: within(width, methods) - 0.95, 1.0, 9.0, xtol=EXACT)

        assert found == pytest.approx(quantile / np.sqrt(2), abs=1e-9)

    def test_many_methods_on_few_benchmarks(self):
        """16 methods on 6 benchmarks need 9.42 ranks of 15 possible."""
        assert critical_difference(16, 6) == pytest.approx(9.42, abs=0.005)

    @pytest.mark.parametrize("step", [None, 0.5])
    def test_friedman_is_that_of_scipy(self, step):
        """The p value is scipy's, with and without ties."""
        values = np.random.default_rng(5).normal(0.3, 1.0, (6, 4))
        table = np.round(values / step) * step if step else values

        assert friedman(table.tolist()) == pytest.approx(stats.friedmanchisquare(*table.T).pvalue, abs=EXACT)

    def test_ranks_by_hand(self):
        """The best has rank 1, ties share, and the mean is over benchmarks."""
        found = ranking(["a", "b", "c"], [[0.9, 0.8, 0.7], [0.9, 0.9, 0.1]])

        assert (found.ranks, found.benchmarks) == ((1.25, 1.75, 3.0), 2)
        assert (found.is_telling, found.cliques) == (False, ((0, 2),))

    def test_cliques_are_the_longest(self):
        """Groups that the test does not tell apart overlap, and none lies inside another."""
        found = ranking(list("abcd"), [[4, 3, 2, 1]] * 12)

        assert found.critical == pytest.approx(1.354, abs=0.001)
        assert found.cliques == ((0, 1), (1, 2), (2, 3))

    @pytest.mark.parametrize(("values", "reason"), [([[1, 2, 3]], "needs three"), ([[1, 1, 1]] * 3, "tie everywhere")])
    def test_friedman_without_a_value(self, values, reason):
        """One benchmark, or ties everywhere, make it absent."""
        assert reason in friedman(values).reason
