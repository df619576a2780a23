"""Benchmarks whose tasks show the same images in their own way: permuted and rotated pixels."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contilab.data import origin as origin_module
from contilab.data.contract import Dataset, Source, Stream
from contilab.data.permuted_fmnist import permuted_fmnist
from contilab.data.permuted_mnist import permuted_mnist
from contilab.data.published import MNIST
from contilab.data.rotated_mnist import rotated_mnist
from contilab.data.rotation import rotated
from contilab.errors import InputError
from contilab.spec.sections import Benchmark

TRAIN, TEST = 120, 50


def digits() -> Dataset:
    """Return images of noise of the size of MNIST's, ten classes."""
    generator = torch.Generator().manual_seed(0)
    train, test = (torch.randint(0, 256, (count, 28, 28), dtype=torch.uint8, generator=generator) for count in (TRAIN, TEST))
    return Dataset("mnist", train, torch.arange(TRAIN) % 10, test, torch.arange(TEST) % 10, 10)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the benchmarks find the noise in place of the published images."""
    monkeypatch.setenv("CONTILAB_CACHE", str(tmp_path))
    monkeypatch.setattr(origin_module, "load_published", lambda _images, _environ: digits())


def source(make: Any = permuted_mnist, **values: Any) -> Source:
    """Return the source of a benchmark of three tasks."""
    name = make.__name__
    made = make(Benchmark(**{"name": name, "scenario": "domain", "tasks": 3, **values}))
    assert isinstance(made, Source)
    return made


def shown(stream: Stream, part: str, task: int) -> torch.Tensor:
    """Return the images of a part of a task, flat."""
    pool = stream.test_inputs if part == "test" else stream.train_inputs
    return pool[getattr(stream.tasks[task], part)]


class TestStreams:
    """What all of these benchmarks have in common."""

    @pytest.mark.parametrize("make", [permuted_mnist, permuted_fmnist, rotated_mnist])
    def test_every_task_shows_the_same_images(self, make: Any) -> None:
        """Each task has all classes under the same rows, its own part of the pools, and the first shows images as they are."""
        stream, data = source(make).load(), digits()

        assert [task.rows for task in stream.tasks] == [tuple(range(10))] * 3
        assert stream.head_rows == 10
        every = torch.cat([torch.cat([task.train, task.validation]) for task in stream.tasks])
        assert sorted(every.tolist()) == list(range(3 * TRAIN)) == list(range(len(stream.train_rows)))
        for number, task in enumerate(stream.tasks):
            assert set(stream.train_tasks[torch.cat([task.train, task.validation])].tolist()) == {number}
        first = torch.cat([shown(stream, "train", 0), shown(stream, "validation", 0)]).tolist()
        assert sorted(first) == sorted(data.train_inputs.flatten(1).tolist())
        assert shown(stream, "test", 0).tolist() == data.test_inputs.flatten(1).tolist()
        assert stream.test_rows[stream.tasks[2].test].tolist() == data.test_labels.tolist()

    def test_pools_are_bytes_to_be_divided_by_255(self) -> None:
        """Pools stay uint8, a byte per value, and normalisation gives pixels / 255."""
        made = source()
        stream = made.load()

        assert (stream.train_inputs.dtype, made.value_bytes) == (torch.uint8, 1)
        assert stream.normalisation is not None
        assert torch.equal(stream.normalisation.apply(stream.train_inputs[:2]), stream.train_inputs[:2].float() / 255)

    @pytest.mark.parametrize("make", [permuted_mnist, rotated_mnist])
    def test_an_image_is_held_out_in_every_form(self, make: Any) -> None:
        """The same images are validation images in every task: none is trained on in another form."""
        stream = source(make, validation=0.3).load()
        per_task = len(stream.train_rows) // 3

        assert len({tuple((task.validation % per_task).tolist()) for task in stream.tasks}) == 1
        assert len(stream.tasks[0].validation) == 40
        for task in stream.tasks:
            assert not set((task.validation % per_task).tolist()) & set((task.train % per_task).tolist())

    def test_limits_hold_per_task(self) -> None:
        """Limited, each task has that many samples and pools hold no others, as announced beforehand."""
        made = source(train_per_task=30, test_per_task=20, validation=0)
        stream = made.load()

        assert [(len(task.train), len(task.test)) for task in stream.tasks] == [(30, 20)] * 3
        assert (len(stream.train_inputs), len(stream.test_inputs)) == (90, 60) == (made.train_samples, made.test_samples)

    @pytest.mark.parametrize("scenario", ["task", "class"])
    @pytest.mark.parametrize("make", [permuted_mnist, permuted_fmnist, rotated_mnist])
    def test_other_scenarios_are_refused(self, make: Any, scenario: str) -> None:
        """Tasks of the same classes are domain-incremental, and nothing else."""
        with pytest.raises(InputError, match=f'has no "{scenario}" form') as caught:
            source(make, scenario=scenario)

        assert caught.value.faults[0].place == "benchmark.scenario"

    @pytest.mark.parametrize(
        ("make", "values"), [(permuted_mnist, {"angles": (1.0, 2.0, 3.0)}), (rotated_mnist, {"first_task": 2})]
    )
    def test_settings_of_others_are_refused(self, make: Any, values: dict[str, Any]) -> None:
        """A setting that a benchmark does not have is refused, not left unheeded."""
        with pytest.raises(InputError, match="has no such setting"):
            source(make, **values)


class TestPermuted:
    """Permuted images."""

    def test_order_is_one_per_task(self) -> None:
        """A task shows training and test images in one and the same order, which is a permutation."""
        stream = source().load()
        inverse = shown(stream, "test", 1)[0].argsort()

        assert sorted(shown(stream, "test", 1)[0].tolist()) == sorted(shown(stream, "test", 0)[0].tolist())
        first, second = shown(stream, "train", 0), shown(stream, "train", 1)
        columns = {tuple(column) for column in first.T.tolist()}
        assert {tuple(column) for column in second.T.tolist()} == columns
        assert len(inverse) == 784
        assert not torch.equal(first, second)

    def test_orders_are_committed(self) -> None:
        """The order follows from digest, seed and task: it never changes, and each of the three changes it."""
        from contilab.data.permutation import pixel_order

        orders = [
            pixel_order(*given, 784) for given in ((MNIST.digest, "natural", 1), ("x", "natural", 1), (MNIST.digest, 0, 1))
        ]

        assert orders[0][:6] == (327, 515, 625, 319, 35, 311)
        assert len(set(orders)) == 3
        assert pixel_order(MNIST.digest, "natural", 2, 784) != orders[0]

    def test_seed_changes_all_but_the_first_task(self) -> None:
        """The task order seed draws other orders; the first task stays the identity."""
        natural, other = source().load(), source(task_order_seed=1).load()

        assert torch.equal(shown(natural, "train", 0), shown(other, "train", 0))
        assert not torch.equal(shown(natural, "train", 1), shown(other, "train", 1))


class TestRotated:
    """Rotated images."""

    def test_quarters_are_exact(self) -> None:
        """Turning by 0, 90, 180 and 360 degrees moves every pixel to its place: numpy's rot90."""
        images = digits().train_inputs.numpy()[:3]

        for quarters, degrees in ((0, 0.0), (1, 90.0), (2, 180.0), (3, -90.0), (0, 360.0)):
            expected = np.rot90(images, quarters, axes=(1, 2)).reshape(3, -1)
            assert np.array_equal(rotated(images, degrees), expected)

    def test_is_bilinear_with_zero_fill(self) -> None:
        """Any angle agrees with a plain bilinear sum in floats to one step of 255 (weights are multiples of 1/256)."""
        image = digits().train_inputs.numpy()[:1].astype(np.float64)
        angle = np.radians(33.0)
        expected = np.zeros((28, 28))
        for row in range(28):
            for column in range(28):
                y, x = row - 13.5, column - 13.5
                at_y, at_x = np.sin(angle) * x + np.cos(angle) * y + 13.5, np.cos(angle) * x - np.sin(angle) * y + 13.5
                top, left = int(np.floor(at_y)), int(np.floor(at_x))
                for r, c in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
                    if 0 <= r < 28 and 0 <= c < 28:
                        expected[row, column] += image[0, r, c] * (1 - abs(at_y - r)) * (1 - abs(at_x - c))

        found = rotated(digits().train_inputs.numpy()[:1], 33.0).reshape(28, 28)

        assert np.abs(found - expected).max() <= 1.5

    def test_bytes_are_committed(self) -> None:
        """Rotated images are the same bytes everywhere: raise the benchmark's numerics if this sum has to change."""
        import hashlib

        turned = rotated(np.arange(784, dtype=np.uint8).reshape(1, 28, 28), 54.0)

        assert hashlib.sha256(turned.tobytes()).hexdigest()[:16] == "51f7890c0b4efd8a"

    def test_angles_are_spread_over_a_half_turn(self) -> None:
        """By default task t is turned by 180 t / T degrees, and listed angles replace these."""
        images = digits().test_inputs.numpy()
        default, listed = source(rotated_mnist).load(), source(rotated_mnist, angles=(0, 80, 160)).load()

        for stream, angles in ((default, (0.0, 60.0, 120.0)), (listed, (0.0, 80.0, 160.0))):
            for task, angle in enumerate(angles):
                assert np.array_equal(shown(stream, "test", task).numpy(), rotated(images, angle))

    def test_seed_shuffles_the_angles(self) -> None:
        """The task order seed changes when an angle comes."""
        natural, other = source(rotated_mnist).load(), source(rotated_mnist, task_order_seed=1).load()
        order = [
            next(t for t in range(3) if torch.equal(shown(natural, "test", t), shown(other, "test", task))) for task in range(3)
        ]

        assert sorted(order) == [0, 1, 2] != order

    def test_one_angle_per_task(self) -> None:
        """Another number of angles than of tasks is refused with both numbers."""
        with pytest.raises(InputError, match="2 angles for 3 tasks"):
            source(rotated_mnist, angles=(0, 80))
