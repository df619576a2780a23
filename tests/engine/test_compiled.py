"""Compiled executions: the numbers of the loop, few graphs, and going on without when compiling fails."""

import shutil

import pytest
import torch

from contilab import catalog
from contilab.engine.environment import COMPILED
from contilab.engine.executions.compiled import Guarded, Reporter, compiled_loop
from contilab.engine.train import train_group
from contilab.engine.watch import silent
from contilab.errors import UsageError
from contilab.spec.sections import Train

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
every_form = pytest.mark.parametrize("form", COMPILED)
# Compiling takes 5 to 60 s per case: each method under the form with the smallest graphs, one of each kind under the others.
METHODS = [
    *((method, "batched") for method in catalog.STRATEGIES),
    *((method, "loop") for method in ("naive", "ewc", "derpp", "agem")),
    *((method, "vmap") for method in ("naive", "derpp")),
]
MODELS = [
    ("convnet", "loop"),
    ("convnet", "vmap"),
    ("convnet", "batched"),
    ("resnet18r", "loop"),
]  # resnet18 has the same graphs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for what is compiled; what several tests have in common is compiled once."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(autouse=True)
def _own_graphs(monkeypatch, folder):
    """Compile into a folder of these tests' own, not for speed, and forget the graphs of other tests."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
    monkeypatch.setenv("TORCHINDUCTOR_DEBUG_COMPILE", "1")  # a third of the time, and the same graphs
    torch._dynamo.reset()


def trained(make, form, method="naive", *, log=None, model=("mlp", {}), stream=None, augment="none"):
    """Return parameters after 21 float64 steps, compiled or (form None) by the loop; two graph shapes in each stage."""
    runs = [make.run(seed, method, model=model, train=Train(steps=7, batch=16, augment=augment)) for seed in range(2)]
    setup = make.setup(runs, stream, torch.float64)
    watch = silent() if log is None else silent()._replace(log=log)
    if form is None:
        return [one.parameters for one in make.outcomes(runs, "loop", stream, torch.float64)]
    return [one.parameters for one in train_group(setup, COMPILED[form], watch)]


def largest_gap(some, others):
    """Return the largest difference between the parameters of two lists of members."""
    return max(abs(a[name] - b[name]).max() for a, b in zip(some, others, strict=True) for name in a)


@pytest.mark.timeout(1200)  # compiling a ResNet-18 beside other work
@pytest.mark.filterwarnings("default")  # of torch's own modules, which it loads to compile
class TestCompiled:
    """What compiled executions compute."""

    @pytest.mark.slow
    @needs_compiler
    @pytest.mark.parametrize(("method", "form"), METHODS)
    def test_twenty_steps_of_every_method_equal_the_loop(self, make, form, method):
        """Parameters after 21 float64 steps over three tasks agree within 1e-9, and nothing falls back to eager."""
        events = []
        compiled = trained(make, form, method, log=lambda event, **_facts: events.append(event))

        assert largest_gap(compiled, trained(make, None, method)) < 1e-9
        assert "compile_failed" not in events
        assert "compiled" in events

    @pytest.mark.slow
    @needs_compiler
    @pytest.mark.parametrize(("model", "form"), MODELS)
    def test_twenty_steps_of_every_model_equal_the_loop(self, make, form, model):
        """So they do for each model of images, trained by naive steps."""
        images = {"model": (model, {}), "stream": make.stream((18, 18), test=3, shape=(1, 8, 8))}
        events = []
        compiled = trained(make, form, log=lambda event, **_facts: events.append(event), **images)

        assert largest_gap(compiled, trained(make, None, **images)) < 1e-9
        assert "compile_failed" not in events

    @pytest.mark.slow
    @needs_compiler
    @every_form
    def test_augmented_steps_equal_the_loop(self, make, form):
        """So they do with pictures that are shown moved and mirrored, current and replayed ones."""
        settings = {"model": ("convnet", {}), "stream": make.stream((18, 18), test=3, shape=(1, 8, 8)), "augment": "crop_flip"}
        events = []
        compiled = trained(make, form, "derpp", log=lambda event, **_facts: events.append(event), **settings)

        assert largest_gap(compiled, trained(make, None, "derpp", **settings)) < 1e-9
        assert "compile_failed" not in events


class TestFallback:
    """Compiling that fails."""

    @every_form
    def test_goes_on_eagerly_and_says_so_once(self, make, form, monkeypatch):
        """An error of the compiler is one warning with its reason, and the numbers are those of the loop."""

        def fails(function, **_options):
            def compiled(*_arguments):
                raise RuntimeError("getpwuid(): uid not found: 12345\n\nand advice")

            return compiled

        monkeypatch.setattr(torch, "compile", fails)
        monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
        warnings = []
        found = trained(make, form, log=lambda event, **facts: warnings.append(facts) if event == "compile_failed" else None)

        assert [warning["reason"] for warning in warnings] == ["RuntimeError: getpwuid(): uid not found: 12345"]
        assert warnings[0]["level"] == "warning"
        assert largest_gap(found, trained(make, None)) < 1e-9

    @every_form
    def test_running_out_of_memory_is_no_failure_of_compiling(self, make, form, monkeypatch):
        """It comes out unchanged, so that the group can be split."""

        def exhausted(function, **_options):
            def compiled(*_arguments):
                raise torch.OutOfMemoryError("no memory left")

            return compiled

        monkeypatch.setattr(torch, "compile", exhausted)
        monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
        with pytest.raises(torch.OutOfMemoryError):
            trained(make, form)

    def test_without_a_compiler_it_is_refused(self, make, monkeypatch):
        """Where there is none, the form says so when it is built, and another one trains."""
        monkeypatch.setattr(shutil, "which", lambda _name: None)
        with pytest.raises(UsageError, match="no C\\+\\+ compiler"):
            compiled_loop(make.setup([make.run()]).learner)


@pytest.mark.filterwarnings("default")  # of torch's own modules, which it loads to compile
class TestLimit:
    """How many graphs there may be."""

    def test_groups_do_not_use_up_each_others_graphs(self, monkeypatch):
        """A process trains one group after the other; torch counts graphs by code, and theirs is the same."""

        def step_of(function):
            def step(x):
                return function(x)

            return step

        compiles = torch.compile
        monkeypatch.setattr(torch, "compile", lambda function, **options: compiles(function, backend="eager", **options))
        reporter = Reporter()
        with torch._dynamo.config.patch(recompile_limit=1):
            found = [float(Guarded(step_of(function), reporter)(torch.zeros(1))) for function in (torch.sin, torch.cos)]

        assert found == [0.0, 1.0]
        assert not reporter.is_eager
