"""When ranks of methods over benchmarks can do more than describe."""

import pytest

from contilab.metrics.contract import Absent
from contilab.report.statistics.ranks import Ranking


def ranked(methods, critical):
    """Return a ranking of so many methods with this critical difference."""
    return Ranking(tuple(map(str, range(methods))), tuple(range(1, methods + 1)), 6, Absent("not asked for"), critical)


class TestTelling:
    """The rule: the best of k methods can be told from the worse half of them, (k + 1) // 2 ranks below it and further."""

    @pytest.mark.parametrize(
        ("methods", "critical", "is_telling"),
        [
            *[(16, 9.42, False), (16, 8.0, False), (16, 7.99, True)],  # ranks 9 to 16 are the worse half
            *[(5, 3.01, False), (5, 2.99, True)],  # 4 and 5; the third is in neither half
            *[(3, 1.99, True), (3, 2.01, False), (2, 0.99, True), (2, 1.0, False)],  # the largest difference there is
        ],
    )
    def test_by_hand(self, methods, critical, is_telling):
        """A critical difference that reaches into the worse half leaves ranks that only describe."""
        assert ranked(methods, critical).is_telling == is_telling

    def test_extremes_may_still_differ(self):
        """16 methods on 6 benchmarks: first and last can be 9.42 ranks apart, which is why the rule asks for more."""
        found = ranked(16, 9.42)

        assert (found.is_separable, found.is_telling) == (True, False)
        assert not ranked(4, 3.0).is_separable

    def test_without_a_critical_difference(self):
        """Where there is none, ranks tell nothing."""
        found = ranked(3, Absent("it needs scipy, which comes with contilab[report]"))

        assert (found.is_separable, found.is_telling) == (False, False)
