"""What the tables of a page leave out, and why."""

import shutil

import pytest

from contilab.catalog import METRICS
from contilab.report.write import report_of

NAIVE, JOINT = (("p", method, [0, 1], {}, "class") for method in ("naive", "joint"))


def left_out(table):
    """Return the reasons of metrics that no line shows, by metric; none is told twice."""
    notes = [text.split(": ", 1) for mark, text in table.notes if not mark]
    assert len({reason for _, reason in notes}) == len(notes)
    pairs = [(name, reason) for names, reason in notes for name in names.split(", ")]
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)


@pytest.fixture(scope="module")
def section(new_study):
    """The section of a study of the core tier, its first method joint training."""
    return report_of(new_study([JOINT, NAIVE]), "tiny")[1].sections[0]


class TestLeftOut:
    """Metrics that no run of a benchmark has."""

    def test_are_told_once_with_their_reason(self, section):
        """Each metric is a line or a name in a note, never both and never neither; a reason is told once."""
        shown = {line.head for line in section.every_metric.lines}

        assert shown.isdisjoint(left_out(section.every_metric))
        assert shown | left_out(section.every_metric).keys() == set(METRICS)

    def test_share_a_reason_whatever_was_not_recorded(self, section):
        """Metrics of streams and of learning curves lack the same tier, and are told of together."""
        found = left_out(section.every_metric)

        assert found["min_acc"] == found["lca_10"] == "not recorded (it needs eval.tier extended)"

    def test_what_no_tier_would_record_says_so(self, section):
        """A metric of language models lacks none of the tiers: the models of the study are no such models."""
        assert left_out(section.every_metric)["ppl_retention"] == "the model is no language model"

    def test_joint_training_does_not_speak_for_the_others(self, section):
        """The reason is that of methods that learn in stages, whatever their place in the table."""
        assert left_out(section.headline)["fwt"] == "a task's classes are masked before it is learned"

    def test_a_missing_run_does_not_speak_for_the_others(self, new_study):
        """Nor is it that a run has no result, where others have one."""
        store = new_study([NAIVE, ("p", "er", [0, 1], {}, "class")])
        for rid in store.study("tiny").cells[0].runs.values():
            shutil.rmtree(store.result_dir(rid))
        table = report_of(store, "tiny")[1].sections[0].headline

        assert left_out(table)["fwt"] == "a task's classes are masked before it is learned"
        assert "the run has no result: waiting" in [text for mark, text in table.notes if mark]
