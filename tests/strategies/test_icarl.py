"""iCaRL: targets of old and new rows."""

import math

import pytest
import torch
from torch.func import grad
from torch.nn.functional import binary_cross_entropy_with_logits

from contilab.catalog import entry
from contilab.strategies.contract import Batch, Member, TaskEnd
from contilab.strategies.icarl import IcarlState, icarl

MEMBER = Member({}, lr=0.1, tasks=2, rows=4)
PARAMS = {"w": torch.tensor([1.0, 2.0])}
SEEN = torch.tensor([True, True, True, False])  # row 3 belongs to a later task


def state_of(old):
    """Return a state that knows the *old* rows."""
    return IcarlState(PARAMS, torch.tensor(old))


def batch_of(logits, row, teacher=None, mask=SEEN):
    """Return a batch whose samples all have one mask."""
    logits = torch.tensor(logits)
    told = None if teacher is None else torch.tensor(teacher)
    return Batch(logits, torch.tensor(row), mask.expand(logits.shape), torch.ones(len(logits)), teacher=told)


def loss(state, batch):
    """Return the loss of one batch."""
    return icarl().loss(state, {"current": batch})


class TestLoss:
    """Binary cross entropy, summed over the rows seen."""

    def test_first_task_by_hand(self):
        """Label 1 of three rows, logits (0, log 3, 0): log 2 + log(4/3) + log 2, the row not seen is left out."""
        batch = batch_of([[0.0, math.log(3), 0.0, 9.0]], [1])
        state = icarl().init(PARAMS, MEMBER)

        assert float(loss(state, batch)) == pytest.approx(2 * math.log(2) + math.log(4 / 3), rel=1e-6)

    def test_old_rows_follow_the_teacher_and_new_ones_the_label(self):
        """Rows 0 and 1 are old: their targets are the teacher's sigmoids 3/4 and 1/2; row 2 is new and the label."""
        batch = batch_of([[0.3, -0.2, 0.7, 9.0]], [2], teacher=[[math.log(3), 0.0, 50.0, 50.0]])
        target = torch.tensor([[0.75, 0.5, 1.0]])
        expected = binary_cross_entropy_with_logits(batch.logits[:, :3], target, reduction="sum")

        assert float(loss(state_of([True, True, False, False]), batch)) == pytest.approx(float(expected), rel=1e-6)

    def test_an_exemplar_is_taught_and_no_new_row(self):
        """The label of an old row is not used: the teacher's 1/2 is, and the new row's target is 0."""
        state = state_of([True, True, False, False])
        batch = batch_of([[0.0, 0.0, 0.0, 0.0]], [0], teacher=[[0.0, 0.0, 0.0, 0.0]])
        slope = grad(lambda logits: loss(state, batch._replace(logits=logits)))(batch.logits)

        assert slope.tolist() == [[0.0, 0.0, 0.5, 0.0]]

    def test_is_a_sum_over_rows_and_a_mean_over_samples(self):
        """The same sample twice costs as much as once; a sample of weight 0 costs nothing."""
        once = batch_of([[0.3, -0.2, 0.7, 9.0]], [2])
        twice = batch_of([[0.3, -0.2, 0.7, 9.0]] * 2, [2, 2])
        padded = twice._replace(weight=torch.tensor([1.0, 0.0]))
        state = icarl().init(PARAMS, MEMBER)

        assert float(loss(state, twice)) == float(loss(state, padded)) == float(loss(state, once))

    def test_task_incremental_sum_has_old_rows_and_those_of_the_own_task(self):
        """A new sample, allowed rows 2 and 3, also follows the teacher on rows 0 and 1: four rows of log 2."""
        mask = torch.tensor([False, False, True, True])
        batch = batch_of([[0.0] * 4], [2], teacher=[[0.0] * 4], mask=mask)

        assert float(loss(state_of([True, True, False, False]), batch)) == pytest.approx(4 * math.log(2), rel=1e-6)

    def test_huge_logits_cost_finite_numbers(self):
        """Logits and a teacher of plus and minus 1e4 overflow nowhere."""
        batch = batch_of([[1e4, -1e4, 1e4, -1e4]], [2], teacher=[[-1e4, 1e4, 0.0, 0.0]])

        assert math.isfinite(loss(state_of([True, True, False, False]), batch))


class TestTaskEnd:
    """What is kept of a task."""

    def test_keeps_the_model_and_the_rows_seen(self):
        """The teacher is a copy of the final parameters; rows seen become old."""
        params = {"w": torch.tensor([5.0, 6.0])}
        groups = torch.tensor([[True, True, False, False], [False, False, True, False]])
        state = icarl().after_task(icarl().init(PARAMS, MEMBER), TaskEnd(params, None, groups))
        params["w"].add_(1)

        assert icarl().teacher(state)["w"].tolist() == [5.0, 6.0]
        assert state.old.tolist() == [True, True, True, False]

    def test_knows_nothing_at_first(self):
        """Before the first task no row is old."""
        assert icarl().init(PARAMS, MEMBER).old.tolist() == [False] * 4


class TestEntry:
    """What the planner is told."""

    def test_herds_at_task_ends_and_predicts_by_means(self):
        """It is not offered domain-incremental, and accepts one policy and one time of insertion."""
        found = entry("method", "icarl")

        assert found.scenarios == ("task", "class")
        assert found.memory == {"policy": ("herding",), "insert": ("task_end",)}
        assert (icarl().stages, icarl().head) == ("exemplars", "ncm")
