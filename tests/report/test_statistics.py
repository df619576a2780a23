"""Statistics of paired seeds: by hand, by enumeration, and against scipy."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy import stats

from contilab.metrics.contract import Absent
from contilab.report.statistics.effect import Effect, effect
from contilab.report.statistics.family import holm
from contilab.report.statistics.interval import COVERAGE, GENERATOR, RESAMPLES, bootstrap_interval, coverage, t_interval
from contilab.report.statistics.paired import DRAWS, EXACT_SEEDS, mid_ranks, minimum_p, seeds_needed, sign_flip, wilcoxon
from contilab.report.summary import summarise

BY_HAND = [1.2, -0.3, 0.9, 0.4, 1.5]
EXACT = 1e-12  # two ways to one exact number differ by rounding only


def differences(seed, size, *, step=None):
    """Return *size* random differences, in multiples of *step* so that ties and zeros occur."""
    values = np.random.default_rng(seed).normal(0.3, 1.0, size)
    return (np.round(values / step) * step if step else values).tolist()


def enumerated(values, statistic):
    """Return the share of all sign patterns whose *statistic* is at least that of the values."""
    d = np.array(values)
    seen = statistic(d)
    found = [statistic(d * np.array(signs)) >= seen - EXACT for signs in product([1, -1], repeat=d.size)]
    return np.mean(found)


def counted(values):
    """Return the share of all sign patterns of whole numbers whose sum is as far from zero, by a table of sums."""
    sums = Counter({0: 1})
    for value in values:
        turned = Counter()
        for total, count in sums.items():
            turned[total + value] += count
            turned[total - value] += count
        sums = turned
    return sum(count for total, count in sums.items() if abs(total) >= abs(sum(values))) / 2 ** len(values)


def rank_sum(d):
    """Return how far the sum of the signed ranks lies from zero."""
    return abs(np.sum(np.sign(d) * stats.rankdata(np.abs(d))))


class TestSignFlip:
    """The exact permutation test of paired differences."""

    def test_by_hand(self):
        """Four of 32 patterns are as far from zero as what was seen, and the mean is .74."""
        assert (sign_flip(BY_HAND), np.mean(BY_HAND)) == pytest.approx((0.125, 0.74), abs=EXACT)

    def test_six_of_one_sign(self):
        """Six differences of one sign give .03125, the least that six can give."""
        assert sign_flip([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]) == 0.03125 == minimum_p(6)

    @pytest.mark.parametrize("step", [None, 0.5])
    @pytest.mark.parametrize("size", [1, 2, 5, 8, 11])
    def test_every_pattern_is_counted(self, size, step):
        """It is the share of all 2^n sign patterns, also with ties and zeros."""
        d = differences(size, size, step=step)

        assert sign_flip(d) == pytest.approx(enumerated(d, lambda x: abs(x.mean())), abs=EXACT)

    @pytest.mark.parametrize("size", [4, 10, 13])
    def test_scipy_agrees(self, size):
        """The exact permutation test of scipy for one sample gives the same p."""
        d = differences(7, size)
        found = stats.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=np.inf)

        assert sign_flip(d) == pytest.approx(found.pvalue, abs=EXACT)

    @pytest.mark.parametrize("size", [19, EXACT_SEEDS])
    def test_a_million_patterns_are_counted(self, size):
        """Up to 20 seeds p is the exact share of all 2^n patterns, as a table of the sums of whole numbers has it."""
        d = np.random.default_rng(size).integers(-6, 12, size).tolist()

        assert sign_flip(d) == counted(d)

    def test_from_21_seeds_on_patterns_are_drawn(self):
        """The 21st seed makes p a share of 100,001 draws, within 4 of its standard errors of the exact one."""
        d = np.random.default_rng(21).integers(-6, 12, EXACT_SEEDS + 1).tolist()
        exact, hits = counted(d), sign_flip(d) * (DRAWS + 1)

        assert EXACT_SEEDS == 20
        assert hits == pytest.approx(round(hits), abs=1e-6)
        assert sign_flip(d) == pytest.approx(exact, abs=4 * np.sqrt(exact / DRAWS))
        assert sign_flip([1.0] * 21) == 1 / (DRAWS + 1)  # not 2^-20

    def test_equal_differences_tie(self):
        """Differences that are equal but for rounding count as ties: 0.3 - 0.1 and 0.2 have one size."""
        assert sign_flip([0.3 - 0.1, -0.2, 0.2]) == 1.0

    def test_many_seeds_are_drawn(self):
        """Beyond 20 seeds p is (hits + 1) / (draws + 1), the same every time, and near the normal value."""
        d = differences(3, 40)
        hits = sign_flip(d) * (DRAWS + 1)
        normal = 2 * stats.norm.sf(abs(np.sum(d)) / np.sqrt(np.sum(np.square(d))))

        assert sign_flip(d) == sign_flip(d)
        assert hits == pytest.approx(round(hits), abs=1e-6)
        assert sign_flip(d) == pytest.approx(normal, abs=0.01)  # 3 sd of 100,000 draws are below .005
        assert sign_flip([1.0] * 60) == 1 / (DRAWS + 1)

    def test_nothing_to_test(self):
        """Without a difference there is no p."""
        with pytest.raises(ValueError, match="no difference"):
            sign_flip([])


class TestWilcoxon:
    """The exact signed-rank test."""

    def test_by_hand(self):
        """The smallest of five differences is the negative one: p is .125 as for the sign-flip test."""
        assert wilcoxon(BY_HAND) == pytest.approx(0.125, abs=EXACT)

    @pytest.mark.parametrize("size", [3, 6, 10, 25, 60])
    def test_scipy_agrees(self, size):
        """Without ties and zeros scipy's exact test gives the same p."""
        d = differences(size, size)

        assert wilcoxon(d) == pytest.approx(stats.wilcoxon(d, method="exact").pvalue, abs=EXACT)

    @pytest.mark.parametrize("seed", range(6))
    def test_ties_are_enumerated(self, seed):
        """With ties and zeros it is the share of sign patterns of the mid-ranks of what is not zero."""
        d = differences(seed, 9, step=0.5)
        rest = [value for value in d if value]

        assert wilcoxon(d) == pytest.approx(enumerated(rest, rank_sum), abs=EXACT)
        assert len(set(map(abs, rest))) < len(rest)

    def test_nothing_but_zeros(self):
        """Differences that are all zero are no evidence."""
        assert wilcoxon([0.0, 0.0, 0.0]) == 1.0

    def test_ranks_are_those_of_scipy(self):
        """Mid-ranks equal scipy's average ranks."""
        values = differences(1, 30, step=0.25)

        assert mid_ranks(values).tolist() == stats.rankdata(values).tolist()


class TestLimits:
    """What a number of seeds can show at all."""

    @pytest.mark.parametrize(
        ("seeds", "p"),
        [
            *[(3, 0.25), (4, 0.125), (5, 0.0625), (6, 0.03125), (7, 0.015625), (8, 0.0078125), (9, 0.00390625)],
            *[(10, 0.001953125), (12, 0.00048828125), (13, 0.000244140625)],
        ],
    )
    def test_minimum_p(self, seeds, p):
        """The smallest p halves with every seed, and both tests reach it."""
        d = list(range(1, seeds + 1))

        assert minimum_p(seeds) == sign_flip(d) == wilcoxon(d) == p

    @pytest.mark.parametrize(("family", "seeds"), [(1, 6), (3, 7), (7, 9), (11, 9), (15, 10), (28, 11), (66, 12), (120, 13)])
    def test_seeds_needed(self, family, seeds):
        """Holm's first step over a family needs this many seeds to reach .05, and one less does not do."""
        assert seeds_needed(family) == seeds
        assert holm([minimum_p(seeds)] * family)[0] <= 0.05 < holm([minimum_p(seeds - 1)] * family)[0]


class TestHolm:
    """The correction over a family."""

    def test_by_hand(self):
        """Two p values that would change their order share the larger adjusted one."""
        assert holm([0.004, 0.03, 0.02, 0.2]) == pytest.approx([0.016, 0.06, 0.06, 0.2], abs=EXACT)

    def test_bounds(self):
        """Adjusted values are at most 1, one test is left alone, and no test is no error."""
        assert (holm([0.6, 0.7]), holm([0.03]), holm([])) == ([1.0, 1.0], [0.03], [])

    @pytest.mark.parametrize("size", [1, 2, 5, 12])
    @pytest.mark.parametrize("digits", [1, 6])
    def test_by_definition(self, size, digits):
        """The k-th smallest is the largest of min(1, (m - l + 1) p_l) over all l up to k, with and without ties."""
        p = np.random.default_rng(size).uniform(0, 0.5, size).round(digits).tolist()
        ordered = sorted(p)
        expected = [max(min(1.0, (size - place) * q) for place, q in enumerate(ordered) if q <= one) for one in p]

        assert holm(p) == pytest.approx(expected, abs=EXACT)

    def test_stepwise_rejection(self):
        """A hypothesis is rejected at a level exactly where Holm's step-down procedure rejects it."""
        p = np.random.default_rng(0).uniform(0, 0.05, 8)
        order, rejected = np.argsort(p), set()
        for step, index in enumerate(order):
            if p[index] > 0.05 / (8 - step):
                break
            rejected.add(int(index))

        assert {index for index, value in enumerate(holm(p.tolist())) if value <= 0.05} == rejected
        assert 0 < len(rejected) < 8


class TestIntervals:
    """Intervals of the mean."""

    @pytest.mark.parametrize("size", [2, 5, 12])
    def test_the_bootstrap_is_that_of_scipy(self, size):
        """With the same generator scipy's percentile interval has the same ends."""
        d = differences(size, size)
        facts = {"method": "percentile", "n_resamples": RESAMPLES, "rng": np.random.default_rng(GENERATOR)}
        expected = stats.bootstrap((d,), np.mean, **facts).confidence_interval

        assert bootstrap_interval(d) == pytest.approx((expected.low, expected.high), abs=EXACT)

    @pytest.mark.parametrize("size", [2, 5, 12])
    def test_t_is_that_of_scipy(self, size):
        """The t interval has the ends of scipy's one-sample test."""
        d = differences(size, size)
        expected = stats.ttest_1samp(d, 0.0).confidence_interval(0.95)

        assert t_interval(d) == pytest.approx((expected.low, expected.high), abs=EXACT)

    @pytest.mark.parametrize("interval", [bootstrap_interval, t_interval])
    def test_one_seed_has_none(self, interval):
        """An interval needs two values."""
        assert (interval([0.5]), interval([])) == (Absent("one seed has no spread"), Absent("no seed has a value"))

    def test_without_scipy(self, monkeypatch):
        """The t interval is absent with the way out, where scipy is not installed."""
        monkeypatch.setattr("contilab.report.statistics.interval.find_spec", lambda _: None)

        assert t_interval([0.1, 0.2]) == Absent("it needs scipy, which comes with contilab[report]")

    @pytest.mark.parametrize("size", COVERAGE)
    def test_coverage(self, size):
        """The stated share of bootstrap intervals over normal data holds the mean; the t interval holds 95 %."""
        data = np.random.default_rng(size).normal(size=(600, size)).tolist()
        held = [
            np.mean([low <= 0 <= high for low, high in map(interval, data)]) for interval in (bootstrap_interval, t_interval)
        ]

        # 4 standard errors of a share over 600 draws
        assert held == pytest.approx([COVERAGE[size] / 100, 0.95], abs=4 * np.sqrt(0.8 * 0.2 / 600))

    def test_few_seeds_are_told(self):
        """Below ten seeds the coverage is stated, from ten on it is not."""
        assert [coverage(n) for n in (2, 3, 4, 6, 9, 10, 30)] == [None, 76, 76, 86, 89, None, None]


class TestEffect:
    """Sizes of differences."""

    def test_by_hand(self):
        """Mean, mean / sd with n - 1, and the seeds won, tied and lost."""
        assert effect([0.3, 0.1, 0.0, -0.2]) == Effect(pytest.approx(0.05), pytest.approx(0.05 / 0.2081665999), 2, 1, 1)

    @pytest.mark.parametrize("size", [2, 5, 30])
    def test_mean_and_spread_are_those_of_numpy(self, size):
        """Means, standard deviations with n - 1 and their ratio, over seeds and over differences."""
        d = differences(size, size)
        mean, sd = np.mean(d), np.std(d, ddof=1)

        assert summarise(d)[:3] == pytest.approx((mean, sd, size), abs=EXACT)
        assert effect(d)[:2] == pytest.approx((mean, mean / sd), abs=EXACT)

    def test_lower_is_better(self):
        """For a metric that should be small, a seed is won where it is smaller; the mean keeps its sign."""
        assert effect([-0.3, -0.1, 0.2], higher_is_better=False)[2:] == (2, 0, 1)

    def test_no_spread(self):
        """Without a standard deviation there is no standardised effect."""
        assert effect([0.2, 0.2]).standardised == Absent("the standard deviation is 0")
        assert effect([0.2]).standardised == Absent("one seed has no spread")
