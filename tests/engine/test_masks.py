"""Which head rows are active, by scenario. Two tasks with rows 0, 1 and 2, 3."""

import pytest

from contilab.engine.masks import evaluation_mask, groups, training_masks
from contilab.spec.sections import Benchmark

ROWS = ((0, 1), (2, 3))
ALL, FIRST, SECOND, NONE = [True] * 4, [True, True, False, False], [False, False, True, True], [False] * 4


def benchmark(scenario, class_mask="seen"):
    """Return a benchmark section of this scenario."""
    return Benchmark(name="b", scenario=scenario, class_mask=class_mask)


class TestTrainingMasks:
    """Masks by the sample's own task."""

    @pytest.mark.parametrize(
        ("scenario", "class_mask", "last", "expected"),
        [
            ("task", "seen", 1, [FIRST, SECOND]),
            ("class", "seen", 0, [FIRST, FIRST]),
            ("class", "seen", 1, [ALL, ALL]),
            ("class", "all", 0, [ALL, ALL]),
            ("domain", "seen", 0, [ALL, ALL]),
        ],
    )
    def test_follow_the_scenario(self, scenario, class_mask, last, expected):
        """Task: rows of the sample's own task. Class: rows seen so far, or all. Domain: all."""
        assert training_masks(benchmark(scenario, class_mask), ROWS, 4, last=last).tolist() == expected


class TestGroups:
    """Rows that compete in what was learned so far: over each of them a method that remembers old answers has one softmax."""

    @pytest.mark.parametrize(
        ("scenario", "class_mask", "last", "expected"),
        [
            ("task", "seen", 0, [FIRST, NONE]),
            ("task", "seen", 1, [FIRST, SECOND]),
            ("class", "seen", 0, [FIRST, NONE]),
            ("class", "seen", 1, [ALL, NONE]),
            ("class", "all", 0, [FIRST, NONE]),
            ("domain", "seen", 0, [ALL, NONE]),
            ("domain", "seen", 1, [ALL, NONE]),
        ],
    )
    def test_follow_the_scenario(self, scenario, class_mask, last, expected):
        """Task: those of each task learned. Class: all seen in one, also if later rows are trained. Domain: all in one."""
        assert groups(benchmark(scenario, class_mask), ROWS, 4, last=last).tolist() == expected


class TestEvaluationMask:
    """Masks of a tested task."""

    @pytest.mark.parametrize(
        ("scenario", "task", "last", "expected"),
        [
            ("task", 1, 0, SECOND),
            ("class", 0, 0, FIRST),
            ("class", 0, 1, ALL),
            ("domain", 1, 0, ALL),
            ("class", 1, -1, SECOND),
            ("domain", 1, -1, ALL),
        ],
    )
    def test_follows_the_scenario(self, scenario, task, last, expected):
        """Evaluation stays "seen" even if training has all rows; the untrained model has the mask of each task."""
        assert evaluation_mask(benchmark(scenario, "all"), ROWS, 4, task=task, last=last).tolist() == expected

    def test_classes_not_yet_seen_are_not_measured(self):
        """In class-incremental learning a later task has no mask."""
        assert evaluation_mask(benchmark("class"), ROWS, 4, task=1, last=0) is None
