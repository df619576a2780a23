"""Blurry streams: every task gives the same share of its training samples to the others."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from contilab.data.blurry import blurred
from contilab.data.contract import Stream, Task
from contilab.errors import InputError


def stream_of(sizes, validation=2):
    """Return a stream whose tasks have *sizes* training samples, each followed by its validation samples."""
    tasks, first = [], 0
    for number, size in enumerate(sizes):
        places = torch.arange(first, first + size + validation)
        tasks.append(Task((number,), places[:size], places[size:], torch.tensor([number])))
        first += size + validation
    owner = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes) + validation)
    return Stream(torch.zeros(first, 1), owner, owner, torch.zeros(len(sizes), 1), torch.arange(len(sizes)), tuple(tasks), 5)


class TestBlurred:
    """What becomes of the training parts."""

    @given(st.lists(st.integers(20, 30), min_size=2, max_size=5), st.sampled_from([0.0, 0.1, 0.3, 0.6]), st.integers(0, 9))
    def test_each_task_changes_a_share_with_the_others(self, sizes, share, digest):
        """Sizes stay, each sample is in one task, and of each task exactly the share, rounded, comes from others."""
        stream = stream_of(sizes)
        made = blurred(stream, share, digest=str(digest)) if feasible(sizes, share) else None
        if made is None:
            return
        parts = [task.train for task in made.tasks]

        assert [len(part) for part in parts] == sizes
        assert sorted(torch.cat(parts).tolist()) == sorted(torch.cat([task.train for task in stream.tasks]).tolist())
        for number, part in enumerate(parts):
            assert int((stream.train_tasks[part] != number).sum()) == round(share * sizes[number])

    def test_others_give_equally_often(self):
        """Of 1,000 samples that a task of five gets, each other task gives 250, within 4.5 standard deviations of 13.7."""
        stream = stream_of([2000] * 5)
        made = blurred(stream, 0.5, digest="any")
        givers = torch.bincount(stream.train_tasks[made.tasks[2].train], minlength=5)

        assert int(givers[2]) == 1000
        assert all(abs(int(givers[task]) - 250) < 62 for task in (0, 1, 3, 4))

    def test_everything_else_stays(self):
        """Validation and test parts, rows and the task of each sample are those of the stream."""
        stream = stream_of([20, 20, 20])
        made = blurred(stream, 0.3, digest="any")
        without = [task._replace(train=None) for task in made.tasks]

        assert without == [task._replace(train=None) for task in stream.tasks]
        assert made.train_tasks is stream.train_tasks
        assert made.train_rows is stream.train_rows

    def test_follows_from_the_data(self):
        """The same digest gives the same tasks, another one others."""
        one, two, other = ([task.train.tolist() for task in blurred(stream_of([20] * 3), 0.3, digest=d).tasks] for d in "aab")

        assert one == two != other

    def test_a_task_larger_than_all_others_is_refused(self):
        """It could not get as many samples back."""
        with pytest.raises(InputError, match="task 1 would give 20 samples away, and all others 10"):
            blurred(stream_of([10, 40, 10]), 0.5, digest="any")


def feasible(sizes, share):
    """Tell whether no task gives more than all others."""
    counts = [round(share * size) for size in sizes]
    return 2 * max(counts) <= sum(counts)
