"""No benchmark lets test data into training: every one of the catalog, under every setting, with every method."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contilab.catalog import BENCHMARKS, STRATEGIES, entry
from contilab.data import source as source_module
from contilab.data import split_digits, synthetic, transformed
from contilab.data.cache import Shape
from contilab.data.contract import Dataset, Stream
from contilab.data.origin import Origin
from contilab.engine.executions.loop import loop
from contilab.engine.setup import learner_of, prepare
from contilab.engine.train import train_group
from contilab.engine.watch import silent
from contilab.records.outcome import Outcome
from contilab.spec.run import Run
from contilab.spec.sections import Benchmark, Data, Eval, Memory, Numerics, Plugin, Train

FORMS = {  # shape and classes of the data behind each benchmark; MNIST's otherwise
    "npz": ((3, 4, 4), 7),
    "split_cifar10": ((3, 32, 32), 10),
    "split_cifar100": ((3, 32, 32), 100),
    "split_digits": ((8, 8), 10),
    "split_tinyimagenet": ((3, 64, 64), 200),
    "synthetic": ((20,), 6),
}
SPECS = st.fixed_dictionaries(
    {
        "tasks": st.integers(1, 5),
        "class_order_seed": st.sampled_from(["natural", 0]),
        "task_order_seed": st.sampled_from(["natural", 0]),
        "validation": st.sampled_from([0.0, 0.1, 0.5]),
        "train_per_task": st.sampled_from(["all", 5]),
        "test_per_task": st.sampled_from(["all", 3]),
    }
)


def dataset(name: str, noise: int) -> Dataset:
    """Return data of the form behind the benchmark *name*: training data always the same, test data of the kind *noise*."""
    shape, classes = FORMS.get(name, ((28, 28), 10))
    train, test = torch.Generator().manual_seed(1), torch.Generator().manual_seed(noise)
    count = 4 * classes if classes > 50 else 90
    return Dataset(
        name,
        torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=train),
        torch.arange(count) % classes,
        torch.randint(0, 256, (3 * classes, *shape), dtype=torch.uint8, generator=test),
        torch.randint(0, classes, (3 * classes,), generator=test) if noise else torch.arange(3 * classes) % classes,
        classes,
    )


@pytest.fixture(params=sorted(BENCHMARKS))
def name(request: pytest.FixtureRequest) -> str:
    """Return the name of a benchmark."""
    return str(request.param)


@pytest.fixture
def noisy(name: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Put the small data in place of the benchmark's own; what is in the list says which test data there are."""
    kind = [0]
    shape, classes = FORMS.get(name, ((28, 28), 10))

    def origin(_spec: Any, _data: Any, _known: Any) -> Origin:
        return Origin(Data(name=name, digest="d" * 64), Shape(shape, True, classes, 90, 90), lambda: dataset(name, kind[0]))

    monkeypatch.setattr(source_module, "origin", origin)
    monkeypatch.setattr(transformed, "origin", origin)
    monkeypatch.setattr(split_digits, "digits", lambda _content: dataset(name, kind[0]))
    monkeypatch.setattr(synthetic, "gaussians", lambda: dataset(name, kind[0]))
    return kind


def stream(name: str, values: dict[str, Any]) -> Stream:
    """Return the stream of the benchmark *name*, domain-incremental: the form that each of them has."""
    loaded: Stream = entry("benchmark", name).make(Benchmark(name=name, scenario="domain", **values)).load()
    return loaded


class TestLeaks:
    """What training sees."""

    @settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(SPECS)
    def test_noise_for_test_data_changes_nothing_in_training(self, name: str, noisy: list[int], values: dict[str, Any]) -> None:
        """With other test data, under the same digest, all that training and selection read stays bit for bit the same."""
        noisy[0] = 0
        clean = stream(name, values)
        noisy[0] = 7
        other = stream(name, values)

        assert torch.equal(clean.train_inputs, other.train_inputs)
        assert torch.equal(clean.train_rows, other.train_rows)
        assert torch.equal(clean.train_tasks, other.train_tasks)
        assert clean.normalisation == other.normalisation
        for first, second in zip(clean.tasks, other.tasks, strict=True):
            assert first.train.tolist() == second.train.tolist()
            assert first.validation.tolist() == second.validation.tolist()
            assert first.classes == second.classes
        assert not torch.equal(clean.test_inputs, other.test_inputs)

    @settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(SPECS)
    def test_nothing_held_out_is_trained_on(self, name: str, noisy: list[int], values: dict[str, Any]) -> None:
        """No index is in the training part of one task and the validation part of any; every part keeps to its pool."""
        made = stream(name, values)
        trained = torch.cat([task.train for task in made.tasks])
        held_out = torch.cat([task.validation for task in made.tasks])

        assert not set(trained.tolist()) & set(held_out.tolist())
        assert len(set(trained.tolist())) == len(trained)
        assert int(torch.cat([trained, held_out]).max()) < len(made.train_inputs) == len(made.train_rows)
        assert int(torch.cat([task.test for task in made.tasks]).max()) < len(made.test_inputs) == len(made.test_rows)


STREAMS = {"sharp": {}, "online": {"online": True}, "fuzzy": {"fuzzy_steps": 1}, "blurry": {"blurry_share": 0.3}}
USUAL = ("er",)  # with every kind of stream; the other methods with sharp ones, and those they all share the draws with


def cases() -> Iterator[Any]:
    """Yield each benchmark with its methods and kinds of streams; among the fast ones each kind is with some benchmarks."""
    others = [kind for kind in STREAMS if kind != "sharp"]
    for place, name in enumerate(sorted(BENCHMARKS)):
        quick = {(method, kind) for method in USUAL for kind in ("sharp", others[place % len(others)])}
        for method in STRATEGIES:
            for kind in STREAMS if method in USUAL else ("sharp",):
                marks = () if (method, kind) in quick else pytest.mark.slow
                yield pytest.param(name, method, kind, id=f"{name}-{method}-{kind}", marks=marks)


def run_of(name: str, method: str, kind: str) -> Run:
    """Return a short run of *method* on a stream of *kind* of the benchmark *name*."""
    own = entry("method", method)
    kept: dict[str, Any] = {key: values[0] for key, values in own.memory.items()}
    scenario: Any = "domain" if name.partition("_")[0] in ("permuted", "rotated") else "class"
    return Run(
        benchmark=Benchmark(name=name, scenario=scenario, tasks=3, validation=0.2, **STREAMS[kind]),  # type: ignore[arg-type]
        data=Data(name=name, digest="d" * 64),
        model=Plugin(name="mlp", settings={"hidden": [4]}),
        optim=Plugin(name="sgd", settings={"lr": 0.01}),
        train=Train(epochs=1, batch=16),
        method=Plugin(name=method, settings={"passes": 2} if method == "gdumb" else {}),
        memory=Memory(total=20, batch=8, **kept) if own.uses_memory else None,
        eval=Eval(),
        engine=Numerics(),
        seed=3,
    )


def other_validation(stream: Stream) -> Stream:
    """Return *stream* with other inputs and labels of all samples that are held out."""
    inputs, rows = stream.train_inputs.clone(), stream.train_rows.clone()
    for task in stream.tasks:
        inputs[task.validation] = 255 - inputs[task.validation]
        rows[task.validation] = task.rows[-1]
    return stream._replace(train_inputs=inputs, train_rows=rows)


def trained(run: Run, change: Callable[[Stream], Stream] = lambda stream: stream) -> Outcome:
    """Return what *run* leaves on its stream, after *change*."""
    source = entry("benchmark", run.benchmark.name).make(run.benchmark)
    setup = prepare([run], learner_of(run, source), change(source.load()), device=torch.device("cpu"))
    return train_group(setup, loop, silent())[0]


@pytest.mark.parametrize(("name", "method", "kind"), list(cases()), indirect=["name"])
class TestTraining:
    """What runs on every benchmark make of test data: nothing."""

    def test_noise_for_test_data_changes_no_parameter_and_no_selection(
        self, name: str, noisy: list[int], method: str, kind: str
    ) -> None:
        """Parameters, losses, what memory holds, and the validation accuracies that choose variants are the same bits."""
        run = run_of(name, method, kind)
        if run.benchmark.scenario not in entry("method", method).scenarios:
            pytest.skip(f"{method} is not defined in the {run.benchmark.scenario}-incremental scenario")
        noisy[0] = 0
        clean = trained(run)
        noisy[0] = 7
        other = trained(run)

        assert all(clean.parameters[key].tobytes() == value.tobytes() for key, value in other.parameters.items())
        assert clean.record.validation == other.record.validation
        assert clean.record.train_loss == other.record.train_loss
        assert clean.record.cost.buffer_bytes == other.record.cost.buffer_bytes
        assert clean.tensors["target"].tobytes() != other.tensors["target"].tobytes()

    def test_batches_and_memory_hold_training_samples_only(
        self, name: str, noisy: list[int], method: str, kind: str, drawn_samples: set[int]
    ) -> None:
        """No batch and no memory ever holds an index of the validation part, and nothing else in training reads its samples."""
        run = run_of(name, method, kind)
        if run.benchmark.scenario not in entry("method", method).scenarios:
            pytest.skip(f"{method} is not defined in the {run.benchmark.scenario}-incremental scenario")
        noisy[0] = 0
        clean = trained(run)
        made = entry("benchmark", name).make(run.benchmark).load()

        assert drawn_samples <= set(torch.cat([task.train for task in made.tasks]).tolist())
        if kind == "sharp":
            other = trained(run, other_validation)
            assert all(clean.parameters[key].tobytes() == value.tobytes() for key, value in other.parameters.items())
            assert clean.record.train_loss == other.record.train_loss
