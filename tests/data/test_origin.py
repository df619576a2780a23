"""Which data a benchmark gets: published, imported in their place, of one's own, or those a run was planned with."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contilab.data import split_cifar10 as cifar_module
from contilab.data.cache import Cache, Named
from contilab.data.contract import Dataset, Source
from contilab.data.digest import digest_of
from contilab.data.importing import import_data
from contilab.data.normalisation import Normalisation
from contilab.data.npz import npz
from contilab.data.published import CIFAR10, MNIST
from contilab.data.split_cifar10 import NORMALISATION, split_cifar10
from contilab.data.split_mnist import split_mnist
from contilab.errors import DataError, InputError
from contilab.spec.sections import Benchmark, Data

SMALL = CIFAR10._replace(image_shape=(3, 4, 4), classes=4, train_samples=40, test_samples=8)


def pictures(seed: int = 0) -> Dataset:
    """Return data of the form of the small set."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randint(0, 256, (48, 3, 4, 4), dtype=torch.uint8, generator=generator)
    return Dataset("cifar10", inputs[:40], torch.arange(40) % 4, inputs[40:], torch.arange(8) % 4, 4)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """Return an empty cache, the small set being the known one."""
    monkeypatch.setenv("CONTILAB_CACHE", str(tmp_path))
    monkeypatch.setenv("CONTILAB_DATA", "")
    monkeypatch.setattr(cifar_module, "CIFAR10", SMALL)
    return Cache(tmp_path)


def put(cache: Cache, name: str, dataset: Dataset, shown: str = "", *, of: str = "cifar10") -> str:
    """Put *dataset* into the *cache* under *name* and return its digest."""
    digest = cache.put(dataset)
    cache.point(name, Named(shown or name, digest, of, is_published=not shown))
    return digest


def source(make: Any, planned: Data | None = None, /, **values: Any) -> Source:
    """Return the source of a benchmark of two tasks."""
    spec = Benchmark(**{"name": make.__name__, "scenario": "class", "tasks": 2, **values})
    made = make(spec, planned)
    assert isinstance(made, Source)
    return made


class TestImported:
    """Data that must be imported first."""

    def test_without_data_the_command_is_named(self, cache: Cache) -> None:
        """Planning without the data is the user's input error, and the message names the commands that bring them."""
        with pytest.raises(InputError, match="cifar10 is not in the cache") as caught:
            source(split_cifar10)

        assert caught.value.exit_code == 2
        assert "contilab data import cifar10 DIR" in caught.value.faults[0].hint

    def test_stream_keeps_bytes_and_shape(self, cache: Cache) -> None:
        """Pools are the images themselves as uint8, with the published normalisation; facts are known beforehand."""
        digest = put(cache, "cifar10", pictures())
        made = source(split_cifar10)
        stream = made.load()

        assert (made.data, made.input_shape, made.head_rows, made.value_bytes) == (
            Data(name="cifar10", digest=digest),
            (3, 4, 4),
            4,
            1,
        )
        assert torch.equal(stream.train_inputs, pictures().train_inputs)
        assert stream.normalisation == NORMALISATION
        assert [task.classes for task in stream.tasks] == [(0, 1), (2, 3)]

    def test_published_constants_are_close_to_those_of_values_from_0_to_255(self) -> None:
        """The normalisation of CIFAR-10 is in units of stored bytes."""
        assert NORMALISATION.shift == pytest.approx((125.3, 123.0, 113.9), abs=0.1)
        assert NORMALISATION.scale == pytest.approx((63.0, 62.1, 66.7), abs=0.1)

    def test_content_that_is_not_published_is_another_benchmark(self, cache: Cache) -> None:
        """Other content under the set's name is used, and its name and digest, so its address, are others."""
        digest = put(cache, "cifar10", pictures(1), "cifar10 (not the published files)")

        assert source(split_cifar10).data == Data(name="cifar10 (not the published files)", digest=digest)

    def test_data_of_a_name_of_ones_own(self, cache: Cache) -> None:
        """`benchmark.data` chooses among what was imported; another form or an unknown name is refused."""
        put(cache, "cifar10", pictures())
        digest = put(cache, "mine", pictures(1), "mine")
        put(cache, "wide", pictures()._replace(train_inputs=torch.zeros(40, 3, 5, 5, dtype=torch.uint8)), "wide", of="")

        assert source(split_cifar10, data="mine").data == Data(name="mine", digest=digest)
        with pytest.raises(InputError, match='"wide" has not the form of cifar10: expected 40 \\+ 8 uint8 inputs of 3 x 4 x 4'):
            source(split_cifar10, data="wide")
        with pytest.raises(InputError, match='no data were imported as "none"') as caught:
            source(split_cifar10, data="none")
        assert "there are cifar10, mine, wide" in caught.value.faults[0].hint

    def test_unequal_tasks(self, cache: Cache) -> None:
        """A first task of more classes leaves the others the rest."""
        put(cache, "cifar10", pictures())

        assert [len(task.rows) for task in source(split_cifar10, first_task=3).load().tasks] == [3, 1]


class TestPlannedRuns:
    """Runs name the digest they were planned with."""

    def test_later_imports_change_no_planned_run(self, cache: Cache) -> None:
        """After the name has moved to other content, a planned run still gets its own, and a new plan the new ones."""
        put(cache, "cifar10", pictures(1), "cifar10 (not the published files)")
        planned = source(split_cifar10).data
        put(cache, "cifar10", pictures(2))

        again = source(split_cifar10, planned)

        assert again.data == planned != source(split_cifar10).data
        assert torch.equal(again.load().train_inputs, pictures(1).train_inputs)

    def test_missing_data_are_named_by_digest(self, cache: Cache) -> None:
        """A machine that lacks the data of a run refuses it, and names the import."""
        put(cache, "cifar10", pictures())

        with pytest.raises(DataError, match="the data of this run, mine with the digest 111111111111, are not in") as caught:
            source(split_cifar10, Data(name="mine", digest="1" * 64), data="mine")

        assert "contilab data import cifar10 PATH --as mine" in caught.value.faults[0].hint


class TestImageSets:
    """MNIST and its relatives, whose digests are known."""

    def test_other_images_in_place_of_the_published_ones(self, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
        """Images imported as the set that are not the published ones take their place, visibly; flat, 0 to 1 as always."""
        monkeypatch.setattr(
            "contilab.data.split_mnist.MNIST", MNIST._replace(image_shape=(2, 2), train_samples=40, test_samples=8)
        )
        generator = torch.Generator().manual_seed(0)
        inputs = torch.randint(0, 256, (48, 2, 2), dtype=torch.uint8, generator=generator)
        labels = torch.arange(48) % 10
        dataset = Dataset("mnist", inputs[:40], labels[:40], inputs[40:], labels[40:], 10)
        digest = put(cache, "mnist", dataset, "mnist (not the published files)", of="mnist")

        made = source(split_mnist)

        assert made.data == Data(name="mnist (not the published files)", digest=digest)
        stream = made.load()
        assert stream.normalisation is not None
        assert torch.equal(stream.normalisation.apply(stream.train_inputs), inputs[:40].flatten(1).float() / 255)
        assert source(split_mnist, Data(name="mnist", digest=MNIST.digest)).data.digest == MNIST.digest


class TestOwn:
    """Data of one's own."""

    def test_arrays_from_file_to_stream(self, cache: Cache, tmp_path: Path) -> None:
        """An .npz file is imported and becomes a stream; bytes are normalised by the first task's training part."""
        data = pictures()
        arrays = {name: getattr(data, name).numpy() for name in ("train_inputs", "train_labels", "test_inputs", "test_labels")}
        np.savez(tmp_path / "own.npz", **arrays)
        taken = import_data("own", tmp_path / "own.npz", {"CONTILAB_CACHE": str(tmp_path)})

        made = source(npz, data="own", validation=0.2)
        stream = made.load()

        assert made.data == Data(name="own", digest=digest_of(data)) == Data(name="own", digest=taken.named.digest)
        first = stream.train_inputs[stream.tasks[0].train].double()
        assert stream.normalisation is not None
        assert stream.normalisation.shift == pytest.approx(first.mean((0, 2, 3)).tolist())
        assert stream.normalisation.scale == pytest.approx(first.std((0, 2, 3), correction=0).tolist())
        assert float(stream.normalisation.apply(stream.train_inputs[stream.tasks[0].train]).mean()) == pytest.approx(
            0, abs=1e-5
        )

    def test_floats_are_taken_as_they_are(self, cache: Cache) -> None:
        """Vectors of floats reach the model unchanged, and have no normalisation."""
        data = Dataset("own", torch.rand(40, 5), torch.arange(40) % 4, torch.rand(8, 5), torch.arange(8) % 4, 4)
        put(cache, "own", data, "own", of="")

        made = source(npz, data="own")

        assert (made.input_shape, made.value_bytes) == ((5,), 4)
        assert torch.equal(made.load().train_inputs, data.train_inputs)
        assert made.load().normalisation is None

    def test_each_task_has_test_samples(self, cache: Cache) -> None:
        """A task whose classes all lack test samples is refused when it is planned; one that has some of them is not."""
        data = Dataset("own", torch.rand(40, 5), torch.arange(40) % 4, torch.rand(8, 5), torch.arange(8) % 2, 4)
        put(cache, "own", data, "own", of="")

        assert [len(task.test) for task in source(npz, data="own", tasks=2, class_order_seed=0).load().tasks] == [4, 4]
        with pytest.raises(InputError, match="own has no test samples of the labels 2, 3, which are all that one task has"):
            source(npz, data="own", tasks=2)

    def test_a_name_is_needed(self, cache: Cache) -> None:
        """Without a name the message says how data are imported and named."""
        with pytest.raises(InputError, match="npz needs the name of imported data") as caught:
            source(npz)

        assert "contilab data import NAME PATH" in caught.value.faults[0].hint
        assert isinstance(NORMALISATION, Normalisation)
