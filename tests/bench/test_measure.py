"""Measurements of training speed: contenders in turns, quiet rounds, rows, and what is kept of them."""

import json

import pytest
import torch

from contilab.bench import bounds as bounds_module
from contilab.bench import measure as measure_module
from contilab.bench.arithmetic import flops_per_sample
from contilab.bench.baseline import OneAtATime
from contilab.bench.bounds import Bounds, bounds
from contilab.bench.crew import crew
from contilab.bench.measure import Measured, Wanted, measure
from contilab.bench.motion import Motion
from contilab.bench.noise import group, input_shape, shape_of
from contilab.bench.rounds import Rounds, rounds
from contilab.bench.table import as_table, keep
from contilab.engine.choice.form import Form
from contilab.engine.environment import COMPILED, EXECUTIONS
from contilab.engine.environment import shape_of as engine_shape
from contilab.engine.executions.contract import Report
from contilab.engine.setup import learner_of
from contilab.errors import ContilabError
from contilab.hardware.peak import PeakMemory
from contilab.hardware.profile import Profiles
from contilab.manifest.resolve import resolve
from contilab.plan.expand import expand
from contilab.plan.menu import catalog_menu
from contilab.spec.sections import Plugin

MANIFEST = 'name = "a"\nprofile = "cpu"\n[matrix]\npreset = ["split_mnist_class"]\nmethod = ["er"]\nseed = [0]\n'
SMALL = Plugin(name="mlp", settings={"hidden": [8]})
QUICK = Wanted(SMALL, members=2, batch=4, precisions=("fp32",), compiles=("off",), repetitions=2, seconds=0.001)


@pytest.fixture(autouse=True)
def _small_bounds(monkeypatch):
    """Bounds of small matrices, which take no time; one thread."""
    monkeypatch.setattr(bounds_module, "SIZES", (64,))
    monkeypatch.setattr(bounds_module, "COPY_BYTES", 2**16)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def two_processes():
    """Two processes that train side by side."""
    with crew(2) as started:
        yield started


class TestRounds:
    """Repetitions in turns."""

    def test_take_turns(self, loads):
        """All contenders warm up once, and then take turns as often as asked for on a quiet machine."""
        loads([0.0] * 4)
        order = []
        found = rounds({name: lambda _, name=name: order.append(name) or 1.0 for name in "ab"}, repetitions=3, seconds=0)

        assert order == list("ab") * 4
        assert (len(found.kept), found.again) == (3, 0)

    def test_busy_neighbours(self, loads):
        """A round beside busy neighbours is measured again, and the quietest count."""
        loads([0.0, 0.9, 0.1, 0.5, 0.0, 0.0])
        found = rounds({"a": lambda _: 1.0}, repetitions=3, seconds=0)

        assert (found.again, found.foreign_cores) == (2, 0.1)

    def test_a_machine_that_is_never_quiet(self, loads):
        """Repeating ends: then the quietest rounds count, and their load is told."""
        loads([0.0, 1.0, 2.0, 3.0, 0.5, 4.0, 5.0])
        found = rounds({"a": lambda _: 1.0}, repetitions=3, seconds=0)

        assert [one.foreign_cores for one in found.kept] == [0.5, 1.0, 2.0]
        assert found.again == 3

    def test_failures(self, loads):
        """One that fails, at once or later, takes no more part; why is kept, and the others have all their turns."""
        loads([0.0] * 4)
        left = [1.0, 1.0]

        def breaks(_seconds):
            return left.pop()

        found = rounds({"good": lambda _: 2.0, "bad": lambda _: 1 / 0, "late": breaks}, repetitions=3, seconds=0)

        assert found.failed == {"bad": "ZeroDivisionError: division by zero", "late": "IndexError: pop from empty list"}
        assert found.speeds("good") == [2.0] * 3


class TestMeasure:
    """Rows of one model and number of members."""

    @pytest.mark.parametrize("method", ["naive", "er"])
    def test_a_row_per_form(self, method, monkeypatch):
        """Every execution has a row, with a speed above zero or a reason; one at a time is measured beside them.

        The memory of a member is that of the device.
        """
        devices = []
        monkeypatch.setattr(measure_module, "PeakMemory", lambda device: devices.append(device) or PeakMemory(device))
        found = measure(QUICK._replace(method=method))

        assert {row.execution for row in found.rows} == set(EXECUTIONS)
        assert all((row.samples_per_s or 0) > 0 or row.reason for row in found.rows)
        assert found.one_at_a_time > 0
        assert set(devices) == {"cpu"}

    @pytest.mark.slow
    def test_what_cannot_be_compiled(self, monkeypatch):
        """A form that cannot be compiled here is a row with the reason, and the others are measured."""

        def broken(learner):
            raise RuntimeError("no compiler found\nmore words")

        monkeypatch.setitem(COMPILED, "loop", broken)
        found = measure(QUICK._replace(compiles=("off", "on")))
        reasons = {row.execution: row.reason for row in found.rows if row.compile == "on"}

        assert reasons["loop"] == "RuntimeError: no compiler found"
        assert any(row.samples_per_s for row in found.rows)

    def test_what_went_on_eagerly(self, monkeypatch):
        """A compiled form that gave up compiling on the way is no measurement of a compiled form."""
        eager = EXECUTIONS["loop"]
        monkeypatch.setitem(COMPILED, "loop", lambda learner: eager(learner)._replace(report=lambda: Report(0.0, "no memory")))
        with pytest.raises(ContilabError, match="went on eagerly: no memory"):
            Motion(group(SMALL, members=1, batch=4), Form("loop", compile="on")).speed(0.0)

    @pytest.mark.slow
    def test_beside_each_other(self, two_processes):
        """Two processes that train a group each are rows of their own, with half of the threads each."""
        torch.set_num_threads(2)
        found = measure(QUICK._replace(repetitions=1), two_processes)
        rows = {(row.processes, row.threads) for row in found.rows if row.execution == "loop" and row.samples_per_s}

        assert rows == {(1, 2), (2, 1)}

    def test_a_process_that_fails(self):
        """What fails in another process is told with its reason, and that process goes on."""
        with crew(1) as other:
            other.sit(model="mlp", settings={"hidden": [8]}, threads=1, members=2, batch=4)
            with pytest.raises(ContilabError, match="KeyError"):
                other.speed(Form("none"), 0.0)

            assert other.speed(Form("loop"), 0.0) > 0


class TestTable:
    """What is left of it."""

    @pytest.fixture
    def found(self):
        """A measurement."""
        return measure(QUICK)

    def test_json_form(self, found: Measured):
        """The JSON file has the promised keys; percent of the bound follows from the bounds beside it."""
        table = json.loads(json.dumps(as_table([found, found.against(Bounds(1e6, 1.0))])))
        names = ["model", "members", "batch", "precision", "compile", "execution", "threads", "processes"]
        figures = ["samples_per_s", "spread", "percent_of_gemm_bound"]
        rows = [row for row in table["rows"] if "reason" not in row]

        assert list(table) == ["machine", "bounds", "one_at_a_time", "rows"]
        assert list(table["bounds"]) == ["gemm_gflops", "copy_gb_per_s"]
        assert table["bounds"]["gemm_gflops"] == 1e6
        assert all(list(row) == names + figures for row in rows)
        assert all(row["percent_of_gemm_bound"] <= 0.1 for row in rows)

    def test_kept_for_auto(self, found: Measured, tmp_path):
        """What is kept in a folder is found there for the same shape; another measurement does not replace it in a store."""
        shape = shape_of(group(SMALL, members=2, batch=4))

        assert keep(found, tmp_path, replaces=False)
        assert not keep(found._replace(rates=found.rates[:1]), tmp_path, replaces=False)
        assert {rate.execution for rate in Profiles(tmp_path).find(shape).rates} >= {"loop", "vmap"}
        assert keep(found._replace(rates=found.rates[:1]), tmp_path, replaces=True)
        assert len(Profiles(tmp_path).find(shape).rates) == 1


class TestShape:
    """What a measurement is kept for."""

    def test_is_that_of_a_study(self):
        """The measurement of a perceptron answers for a study of Split MNIST with the same batch and number of members."""
        words = ["train.batch=32", "matrix.seed=[0, 1]"]
        study = expand(resolve(MANIFEST, place="m.toml", values=words, menu=catalog_menu()), catalog_menu())
        runs = list(study.runs.values())
        learner = learner_of(runs[0], study.sources[runs[0].benchmark])

        assert engine_shape(runs[0], learner, 2, "cpu") == shape_of(group(Plugin(name="mlp"), members=2, batch=32))


class TestYardsticks:
    """What speeds are held against."""

    def test_arithmetic_of_a_perceptron(self):
        """Forward pass and weight gradients of all layers, input gradients of all but the first: 2 per multiply-add."""
        setup = group(Plugin(name="mlp"), members=1, batch=4)

        assert flops_per_sample(setup) == 2 * (2 * (784 * 400 + 400 * 400 + 400 * 10) + 400 * 400 + 400 * 10)

    def test_bounds(self):
        """Both bounds are above zero, and the better of two measurements counts, each for itself."""
        assert min(bounds()) > 0
        assert Bounds(1.0, 4.0).best_of(Bounds(2.0, 3.0)) == Bounds(2.0, 4.0)

    def test_by_hand(self):
        """The loop by hand trains: its parameters move, over the end of an epoch too."""
        setup = group(SMALL, members=1, batch=4)
        alone = OneAtATime(setup)
        alone._order = torch.arange(2)
        before = alone._params["head.weight"].detach().clone()
        lap = alone.during(0.0)

        assert (lap.steps, lap.samples) == (1, 4)
        assert not torch.equal(before, alone._params["head.weight"])

    @pytest.mark.parametrize(("name", "shape"), [("mlp", (784,)), ("convnet", (3, 32, 32))])
    def test_inputs(self, name, shape):
        """Perceptrons get 784 numbers, convolutions an image."""
        assert input_shape(Plugin(name=name)) == shape


@pytest.fixture
def loads(monkeypatch):
    """Let neighbours use as many cores in each round as a list says; the first is that of the warm-up."""

    def use(cores):
        left = iter(cores)

        class Quiet:
            def __enter__(self):
                self.cores = next(left)
                return self

            def __exit__(self, *_):
                pass

        monkeypatch.setattr("contilab.bench.rounds.Neighbours", Quiet)

    return use


def test_rounds_without_any():
    """Where nothing could be measured there is no load to tell."""
    assert Rounds((), 0, {}).foreign_cores == 0
