"""Streams of tasks: rows, orders and parts in the three scenarios."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contilab.data.contract import Dataset, Stream
from contilab.data.split import split
from contilab.errors import InputError
from contilab.spec.sections import Benchmark


def dataset(classes: int, train: int = 23, test: int = 7) -> Dataset:
    """Return a data set whose samples are numbered; classes are mixed and of different size."""
    train_labels = torch.tensor([(3 * index + index // 7) % classes for index in range(classes * train)])
    test_labels = torch.arange(classes * test) % classes
    train_inputs = torch.arange(classes * train, dtype=torch.uint8)[:, None, None].expand(-1, 2, 2)
    return Dataset("numbered", train_inputs, train_labels, torch.zeros(len(test_labels), 2, 2), test_labels, classes)


def stream(classes: int = 10, **values: Any) -> Stream:
    """Return the stream of a numbered data set; class-incremental unless *values* say otherwise."""
    spec = Benchmark(name="numbered", **{"scenario": "class", **values})
    return split(dataset(classes), spec, digest="d" * 64)


def parts(made: Stream) -> list[tuple[tuple[int, ...], list[int], list[int], list[int], tuple[int, ...]]]:
    """Return everything of the tasks of *made* that can be compared."""
    return [(t.rows, t.train.tolist(), t.validation.tolist(), t.test.tolist(), t.classes) for t in made.tasks]


SPECS = st.fixed_dictionaries(
    {
        "scenario": st.sampled_from(["task", "class", "domain"]),
        "tasks": st.integers(1, 10),
        "class_order_seed": st.sampled_from(["natural", 0, 7]),
        "task_order_seed": st.sampled_from(["natural", 0, 7]),
        "validation": st.sampled_from([0.0, 0.1, 0.5, 0.99]),
    }
)


class TestParts:
    """Training, validation and test parts."""

    @settings(max_examples=60)
    @given(SPECS)
    def test_every_sample_is_in_exactly_one_part(self, values: dict[str, Any]) -> None:
        """Without limits, training and validation parts partition the training data, and test parts the test data."""
        made = stream(**values)

        trained = torch.cat([torch.cat([task.train, task.validation]) for task in made.tasks])
        assert sorted(trained.tolist()) == list(range(len(made.train_rows)))
        assert sorted(torch.cat([task.test for task in made.tasks]).tolist()) == list(range(len(made.test_rows)))

    @settings(max_examples=60)
    @given(SPECS, st.integers(1, 60), st.integers(1, 20))
    def test_limits_keep_parts_apart(self, values: dict[str, Any], train: int, test: int) -> None:
        """Limits are kept, shorten training and test only, and are part of what a larger limit gives; validation stays."""
        made, whole = stream(**values, train_per_task=train, test_per_task=test), stream(**values)

        for task, full in zip(made.tasks, whole.tasks, strict=True):
            assert len(task.train) == min(train, len(full.train))
            assert len(task.test) == min(test, len(full.test))
            assert set(task.train.tolist()) <= set(full.train.tolist())
            assert set(task.test.tolist()) <= set(full.test.tolist())
            assert not set(task.train.tolist()) & set(task.validation.tolist())
            assert task.validation.tolist() == full.validation.tolist()

    @settings(max_examples=60)
    @given(SPECS)
    def test_samples_belong_to_their_task(self, values: dict[str, Any]) -> None:
        """Row and task of each sample are those that the stored class order gives its label."""
        made, data = stream(**values), dataset(10)

        for number, task in enumerate(made.tasks):
            row_of = dict(zip(task.classes, task.rows, strict=True))
            both = torch.cat([task.train, task.validation])
            assert set(made.train_tasks[both].tolist()) == {number}
            assert made.train_rows[both].tolist() == [row_of[label] for label in data.train_labels[both].tolist()]
            assert made.test_rows[task.test].tolist() == [row_of[label] for label in data.test_labels[task.test].tolist()]

    @pytest.mark.parametrize("share", [0.1, 0.25])
    def test_validation_is_within_one_sample_of_its_share_of_each_class(self, share: float) -> None:
        """No class is over- or under-represented in validation, whatever the order of the samples."""
        made, data = stream(validation=share), dataset(10)

        held = torch.cat([task.validation for task in made.tasks])
        for label in range(10):
            samples = int((data.train_labels == label).sum())
            assert abs(int((data.train_labels[held] == label).sum()) - share * samples) <= 1

    def test_validation_zero_is_empty(self) -> None:
        """With share 0 nothing is held out, and the part is an empty index."""
        assert [task.validation.tolist() for task in stream(validation=0.0).tasks] == [[]] * 5
        assert stream(validation=0.0).tasks[0].validation.dtype == torch.int64

    def test_validation_does_not_depend_on_tasks_or_orders(self) -> None:
        """The same samples are held out however the classes are ordered and cut: the choice belongs to the data."""
        first, second = (
            stream(tasks=5),
            stream(tasks=3, scenario="domain", class_order_seed=3, task_order_seed=1, train_per_task=4),
        )

        held = [sorted(torch.cat([task.validation for task in made.tasks]).tolist()) for made in (first, second)]
        assert held[0] == held[1]

    def test_validation_depends_on_the_data(self) -> None:
        """Data with another digest have other samples held out."""
        spec = Benchmark(name="numbered", scenario="class")

        made = [split(dataset(10), spec, digest=digest) for digest in ("a", "b")]

        assert made[0].tasks[0].validation.tolist() != made[1].tasks[0].validation.tolist()

    def test_limits_are_stratified(self) -> None:
        """A limited part has its classes in equal numbers, up to one."""
        made, data = stream(tasks=2, train_per_task=13), dataset(10)

        for task in made.tasks:
            counts = torch.bincount(data.train_labels[task.train], minlength=10)[list(task.classes)]
            assert int(counts.max() - counts.min()) <= 1

    def test_two_builds_are_equal(self) -> None:
        """Building the same stream twice gives the same, tensor by tensor."""
        values: dict[str, Any] = {"class_order_seed": 3, "task_order_seed": 4, "train_per_task": 9}
        first, second = stream(**values), stream(**values)

        assert parts(first) == parts(second)
        assert all(torch.equal(first[place], second[place]) for place in range(5))


class TestRows:
    """Head rows of classes and tasks."""

    @pytest.mark.parametrize("scenario", ["task", "class"])
    @pytest.mark.parametrize(
        ("tasks", "rows"),
        [
            (1, [tuple(range(10))]),
            (3, [(0, 1, 2, 3), (4, 5, 6), (7, 8, 9)]),
            (5, [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]),
            (10, [(row,) for row in range(10)]),
        ],
    )
    def test_task_and_class_have_a_row_per_class(self, scenario: str, tasks: int, rows: list[tuple[int, ...]]) -> None:
        """In task- and class-incremental streams each class has its own row, in order; the first tasks get one more."""
        made = stream(scenario=scenario, tasks=tasks)

        assert [task.rows for task in made.tasks] == rows
        assert [task.classes for task in made.tasks] == rows
        assert made.head_rows == 10

    @pytest.mark.parametrize(
        ("tasks", "rows"), [(5, [(0, 1)] * 5), (3, [(0, 1, 2, 3), (0, 1, 2), (0, 1, 2)]), (1, [tuple(range(10))])]
    )
    def test_domain_shares_rows(self, tasks: int, rows: list[tuple[int, ...]]) -> None:
        """In a domain-incremental stream a class has the row of its position in its task: 2 rows for 5 tasks of 2."""
        made = stream(scenario="domain", tasks=tasks)

        assert [task.rows for task in made.tasks] == rows
        assert made.head_rows == len(rows[0])
        assert int(made.train_rows.max()) == made.head_rows - 1

    def test_class_order_is_a_stored_permutation(self) -> None:
        """A class order seed permutes the classes, equally in every scenario; the order can be read from the tasks."""
        made = [stream(scenario=scenario, class_order_seed=1) for scenario in ("task", "class", "domain")]

        orders = [[label for task in each.tasks for label in task.classes] for each in made]
        assert orders[0] == orders[1] == orders[2] != list(range(10))
        assert sorted(orders[0]) == list(range(10))
        assert [task.rows for task in made[1].tasks] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]

    def test_class_orders_are_committed(self) -> None:
        """The order that a seed gives never changes."""
        made = stream(class_order_seed=0, tasks=1)

        assert made.tasks[0].classes == (3, 0, 6, 4, 8, 2, 5, 7, 1, 9)

    def test_task_order_moves_whole_tasks(self) -> None:
        """A task order seed changes when a task comes, and neither its classes nor their rows."""
        natural, made = stream(), stream(task_order_seed=2)

        assert parts(natural) != parts(made)
        assert sorted(parts(natural)) == sorted(parts(made))

    def test_more_tasks_than_classes_are_refused(self) -> None:
        """Tasks without a class are the user's mistake, said with the numbers."""
        with pytest.raises(InputError) as caught:
            stream(tasks=11)

        assert str(caught.value) == (
            "benchmark.tasks: numbered has 10 classes, which do not give 11 tasks one class each\n"
            "  hint: set benchmark.tasks to 1 up to 10"
        )


class TestInputs:
    """The pools of inputs."""

    def test_are_flat_and_stay_as_they_are_stored(self) -> None:
        """Inputs are flattened and keep their type, so bytes stay bytes."""
        data = dataset(10)

        made = split(data, Benchmark(name="numbered", scenario="class"), digest="d")

        assert torch.equal(made.train_inputs, data.train_inputs.reshape(-1, 4))
        assert made.train_inputs.dtype == data.train_inputs.dtype

    def test_labels_of_test_data_change_nothing_in_training(self) -> None:
        """Training parts and inputs are the same whatever the test data are."""
        data = dataset(10)
        other = data._replace(test_inputs=data.test_inputs + 5, test_labels=data.test_labels.flip(0))
        spec = Benchmark(name="numbered", scenario="class")

        first, second = split(data, spec, digest="d"), split(other, spec, digest="d")

        assert torch.equal(first.train_inputs, second.train_inputs)
        assert [task.train.tolist() for task in first.tasks] == [task.train.tolist() for task in second.tasks]


class TestUnequalTasks:
    """A first task of its own size."""

    @pytest.mark.parametrize(
        ("first", "tasks", "sizes"), [(5, 6, [5, 1, 1, 1, 1, 1]), (4, 3, [4, 3, 3]), (1, 4, [1, 3, 3, 3]), (10, 1, [10])]
    )
    def test_others_share_the_rest(self, first: int, tasks: int, sizes: list[int]) -> None:
        """The first task has its classes, the others share what is left as equally as it goes."""
        made = stream(first_task=first, tasks=tasks)

        assert [len(task.classes) for task in made.tasks] == sizes
        assert sorted(label for task in made.tasks for label in task.classes) == list(range(10))

    def test_first_stays_first(self) -> None:
        """A task order seed shuffles the others only."""
        natural, made = stream(first_task=4, tasks=4), stream(first_task=4, tasks=4, task_order_seed=1)

        assert made.tasks[0].classes == natural.tasks[0].classes
        assert [task.classes for task in made.tasks] != [task.classes for task in natural.tasks]
        assert sorted(task.classes for task in made.tasks) == sorted(task.classes for task in natural.tasks)

    def test_domain_rows_are_those_of_the_largest_task(self) -> None:
        """In a domain-incremental stream the head has as many rows as the first task."""
        assert stream(scenario="domain", first_task=6, tasks=3).head_rows == 6

    @pytest.mark.parametrize(("first", "tasks"), [(10, 2), (8, 4), (5, 1), (11, 1)])
    def test_what_does_not_fit_is_refused(self, first: int, tasks: int) -> None:
        """Classes that are left over or lacking are refused with the numbers."""
        with pytest.raises(InputError, match=f"{first} of 10 classes leave"):
            stream(first_task=first, tasks=tasks)
