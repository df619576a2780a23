"""The benchmarks of the catalog: facts known beforehand, and that the real data are what they say."""

import hashlib
import os
from importlib.resources import files
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
import torch

from contilab.catalog import entry
from contilab.data.contract import Source
from contilab.data.digest import digest_of
from contilab.data.normal import inverse, logarithm, normal
from contilab.data.split_digits import FILE, digits
from contilab.data.synthetic import gaussians
from contilab.errors import DataError, InputError
from contilab.spec.sections import Benchmark, Data

TEST_DATA = os.environ.get("CONTILAB_TEST_DATA")
FASHION = Path("/usr/share/datasets/fashion-mnist")
SKIPS = {
    "split_mnist": pytest.mark.skipif(not TEST_DATA, reason="CONTILAB_TEST_DATA is not set"),
    "split_fmnist": pytest.mark.skipif(not FASHION.is_dir(), reason=f"{FASHION} is not there"),
}
FIXED = (
    "split_digits",
    "split_fmnist",
    "split_mnist",
    "synthetic",
)  # their data are known without having them; tasks are classes
AVAILABLE = [pytest.param(name, marks=SKIPS.get(name, ())) for name in FIXED]
SHIPPED_SHA256 = "ea9bf7270e93dd2817d1c3a96341050bb3c52ddccaf3dbbaa2cd24ca1b4c0c86"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache that the tests of this file share: each set is converted once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's own cache out of these tests."""
    monkeypatch.setenv("CONTILAB_CACHE", str(cache))


def source(name: str, scenario: str = "class", tasks: int = 3, **values: float) -> Source:
    """Return the source of the benchmark *name*."""
    made = entry("benchmark", name).make(Benchmark(name=name, scenario=scenario, tasks=tasks, **values))
    assert isinstance(made, Source)
    return made


class TestSources:
    """The benchmarks whose data are known without having them."""

    @pytest.mark.parametrize("name", AVAILABLE)
    def test_stream_is_as_announced(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Shape, rows and numbers of samples of the loaded stream are those known beforehand; inputs are finite and scaled."""
        monkeypatch.setenv("CONTILAB_DATA", TEST_DATA or "")

        known = source(name)
        made = known.load()

        assert made.train_inputs.shape == (known.train_samples, *known.input_shape)
        assert made.test_inputs.shape == (known.test_samples, *known.input_shape)
        assert made.head_rows == known.head_rows
        assert len(made.tasks) == 3
        seen = made.train_inputs if made.normalisation is None else made.normalisation.apply(made.train_inputs)
        assert name == "synthetic" or (float(seen.min()), float(seen.max())) == (0, 1)
        assert bool(seen.isfinite().all())

    @pytest.mark.parametrize("name", FIXED)
    def test_facts_need_no_data(self, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Digest, rows and numbers of samples are known where no data are, and do not depend on how the data are split."""
        monkeypatch.setenv("CONTILAB_DATA", str(tmp_path))

        domain, limited = source(name, "domain"), source(name, "task", 2, train_per_task=50, test_per_task=5)

        assert domain.data == limited.data
        assert len(domain.data.digest) == 64
        assert (limited.train_samples, limited.test_samples) == (100, 10)
        assert domain.head_rows == -(-limited.head_rows // 3)

    @pytest.mark.parametrize("name", FIXED)
    def test_data_of_a_planned_run_are_those_or_none(self, name: str) -> None:
        """Given the data a run was planned with, the source is of these; with another digest it is refused."""
        make, spec = entry("benchmark", name).make, Benchmark(name=name, scenario="class", tasks=3)

        assert make(spec, make(spec).data).data == make(spec).data
        with pytest.raises(DataError):
            make(spec, Data(name=name, digest="0" * 64))

    @pytest.mark.parametrize("name", FIXED)
    def test_more_tasks_than_classes_are_refused_when_planning(self, name: str) -> None:
        """Too many tasks are refused before any data are needed."""
        with pytest.raises(InputError, match=r"^benchmark\.tasks: "):
            source(name, tasks=11)

    @pytest.mark.skipif(not TEST_DATA, reason="CONTILAB_TEST_DATA is not set")
    def test_mnist_pixels_are_divided_by_255_and_nothing_else(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The first training image is the well-known five, its pixels n / 255 in float32."""
        monkeypatch.setenv("CONTILAB_DATA", str(Path(TEST_DATA or "") / "mnist"))

        made = source("split_mnist", tasks=5).load()

        assert int(made.train_rows[0]) == 5
        assert made.normalisation is not None
        five = made.normalisation.apply(made.train_inputs[:1])[0]
        assert int(made.train_inputs[0].sum()) == 27525
        assert torch.equal(five, made.train_inputs[0].float() / 255)
        assert [len(task.test) for task in made.tasks] == [2115, 2042, 1874, 1986, 1983]

    @pytest.mark.skipif(not (TEST_DATA and FASHION.is_dir()), reason="CONTILAB_TEST_DATA or Fashion-MNIST is not there")
    def test_fashion_is_not_taken_from_the_folder_of_mnist(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With only MNIST in CONTILAB_DATA, Fashion-MNIST still comes from where the system keeps it: 6,000 of each class."""
        monkeypatch.setenv("CONTILAB_DATA", str(Path(TEST_DATA or "") / "mnist"))

        made = source("split_fmnist", tasks=5).load()

        assert torch.bincount(made.train_rows).tolist() == [6000] * 10
        assert [len(task.validation) for task in made.tasks] == [1200] * 5


class TestDigits:
    """The digits in the package."""

    def test_shipped_file_is_the_committed_one(self) -> None:
        """The file has the SHA-256 that its description names, and stays small."""
        content = files("contilab.data").joinpath(FILE).read_bytes()

        assert hashlib.sha256(content).hexdigest() == SHIPPED_SHA256
        assert SHIPPED_SHA256 in files("contilab.data").joinpath("DIGITS.md").read_text(encoding="utf-8")
        assert len(content) < 120_000

    def test_images_are_those_of_scikit_learn(self) -> None:
        """Every image and label equals the source's; each fifth of a class is test data."""
        datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
        original = datasets.load_digits()
        of_class = [np.flatnonzero(original.target == label) for label in range(10)]
        test = np.sort(np.concatenate([indices[4::5] for indices in of_class]))

        made = digits(files("contilab.data").joinpath(FILE).read_bytes())

        assert np.array_equal(made.test_inputs.numpy(), original.images[test])
        assert np.array_equal(made.train_inputs.numpy(), np.delete(original.images, test, axis=0))
        assert np.array_equal(made.train_labels.numpy(), np.delete(original.target, test))

    @pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
    def test_damaged_file_is_refused(self, damage: str) -> None:
        """A damaged file is refused, also where safetensors would read it without a word (a flipped data byte)."""
        content = files("contilab.data").joinpath(FILE).read_bytes()
        damaged = {"cut": content[:-1], "flipped": content[:-9] + b"\x07" + content[-8:], "empty": b""}[damage]

        with pytest.raises(DataError, match="the file in the package is damaged"):
            digits(damaged)


class TestNormal:
    """Normal numbers in exact arithmetic."""

    def test_inverse_is_that_of_the_standard_library(self) -> None:
        """In the centre and both tails the inverse agrees with Python's to 1e-14 (the algorithm gives 16 digits)."""
        tails = 10.0 ** -np.arange(1, 16)
        shares = np.concatenate([np.linspace(0.001, 0.999, 500), tails, 1 - tails])

        expected = [NormalDist().inv_cdf(float(share)) for share in shares]

        assert inverse(shares) == pytest.approx(expected, rel=1e-14, abs=1e-15)

    def test_logarithm_is_that_of_the_platform(self) -> None:
        """The own logarithm agrees with the platform's to a few units of the last place."""
        x = np.array([1e-300, 0.1, 0.5, 0.7, 1.0, 2.0, 1e10])

        assert logarithm(x) == pytest.approx(np.log(x), rel=1e-15)

    def test_numbers_are_normal(self) -> None:
        """Their distribution is normal by the Kolmogorov-Smirnov bound 1.63 / sqrt(n) (level 1 %, one fixed stream)."""
        numbers = np.sort(normal(5, 10_000))
        shares = np.array([NormalDist().cdf(float(number)) for number in numbers])

        assert float(np.abs(shares - (np.arange(10_000) + 0.5) / 10_000).max()) < 1.63 / 100

    def test_streams_are_their_own_prefixes(self) -> None:
        """Asking for more numbers of a stream leaves the first ones as they are; another key is another stream."""
        assert normal(1, 5).tolist() == normal(1, 9)[:5].tolist()
        assert normal(1, 5).tolist() != normal(2, 5).tolist()


class TestSynthetic:
    """The synthetic data."""

    def test_bytes_are_committed(self) -> None:
        """The data are the same bytes everywhere: raise the generator's version if this digest has to change."""
        assert digest_of(gaussians()) == "015f1e4ca65bc6879490496425060cb714fa5fedac51e4d9f93dc7493b293cc2"

    def test_classes_are_clouds_of_unit_variance(self) -> None:
        """Within a class the standard deviation is 1; the means are spread with 3, up to what 120 of them can tell."""
        made = gaussians()
        by_class = made.train_inputs.reshape(6, 200, 20)

        assert float(by_class.std(dim=1).mean()) == pytest.approx(1, abs=0.02)
        assert float(by_class.mean(dim=1).std()) == pytest.approx(3, abs=0.6)
        assert torch.bincount(made.test_labels).tolist() == [100] * 6
