"""A user's own model: found, hashed, its arguments settings; every way in which its file can be wrong is one sentence."""

import sys
from dataclasses import fields

import pytest
import torch

from contilab.catalog import entry
from contilab.errors import InputError
from contilab.models.own import own_model

NET = '''
from math import prod
from typing import Annotated, Literal

from torch import nn

from contilab.models.contract import Forward, Model, Uniform
from contilab.models.layers import linear


def net(input_shape: tuple[int, ...], rows: int, *, bound: float = 0.1, widths: tuple[int, ...] = (3, 4)) -> Model:
    """A linear model. It is one's own."""
    inputs = prod(input_shape)
    table = {"weight": Uniform((rows, inputs), bound), "bias": Uniform((rows,), sum(widths))}

    def forward(params, _buffers, x):
        return Forward(x.flatten(1), linear(x.flatten(1), params["weight"], params["bias"]))

    return Model(table, forward, 2 * inputs * rows)


def module(input_shape: tuple[int, ...], rows: int, *, width: int = 4) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(input_shape), width), nn.ReLU(), nn.Linear(width, rows))


def wrong(input_shape: tuple[int, ...], rows: int) -> int:
    return rows


def estimated(input_shape: tuple[int, ...], rows: int) -> Model:
    return net(input_shape, rows)._replace(flops=2e6)


def failing(input_shape: tuple[int, ...], rows: int) -> Model:
    raise ValueError(f"no {rows}")


def leaving(input_shape: tuple[int, ...], rows: int) -> Model:
    raise SystemExit(7)


def untyped(input_shape, rows, width=3): ...


def of_tensors(input_shape: tuple[int, ...], rows: int, *, start: "Model"): ...


def unknown(input_shape: "Shape", rows: int): ...


def any_number(*shape: int): ...
'''


@pytest.fixture(autouse=True)
def python_path():
    """Leave Python's search path and modules as they were."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a file of models, alone and in a package."""
    (tmp_path / "nets.py").write_text(NET)
    (tmp_path / "queue.py").write_text(NET)
    (tmp_path / "group").mkdir()
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "net.py").write_text(NET)
    (tmp_path / "group" / "__init__.py").write_text("")
    (tmp_path / "group" / "inner.py").write_text("from nets import net\n\n" + NET.replace("0.1", "0.2"))
    return tmp_path


def refusal(name, folder):
    """Return the fault of the model *name*."""
    with pytest.raises(InputError) as raised:
        own_model(name, [folder])
    return raised.value.faults[0]


class TestOwnModel:
    """A model of a user's own file."""

    def test_is_built_with_its_settings(self, folder):
        """It gets the shape and rows, and its further arguments; lists of a manifest are tuples to it."""
        found = own_model("nets:net", [folder])
        model = found.make(found.settings(bound=0.5, widths=[1, 1]), (2, 3), 4)
        params = {name: torch.ones(item.shape) for name, item in model.table.items()}

        assert [(item.shape, item.bound) for item in model.table.values()] == [((4, 6), 0.5), ((4,), 2)]
        assert model.forward(params, {}, torch.ones(5, 2, 3)).logits.shape == (5, 4)
        assert [(item.name, item.default) for item in fields(found.settings)] == [("bound", 0.1), ("widths", (3, 4))]
        assert found.summary == "A linear model. It is one's own."

    def test_may_be_a_module(self, folder):
        """A function that returns a torch module is a model of the module's parameters."""
        found = own_model("nets:module", [folder])
        model = found.make(found.settings(width=7), (2, 3), 4)

        assert [item.shape for item in model.table.values()] == [(7, 6), (7,), (4, 7), (4,)]
        assert model.flops == 2 * (6 * 7 + 7 * 4)

    def test_an_edit_is_another_tag(self, folder):
        """Any change of the file changes the tag and what is run; the same bytes elsewhere have the same tag."""
        before = own_model("nets:net", [folder]).numerics
        (folder / "copy").mkdir()
        (folder / "copy" / "nets.py").write_text(NET)
        same = own_model("nets:net", [folder / "copy"]).numerics
        (folder / "nets.py").write_text(NET.replace("0.1", "0.3"))
        edited = own_model("nets:net", [folder])

        assert before.startswith("nets:net/")
        assert same == before
        assert edited.numerics != before
        assert edited.settings().bound == 0.3

    def test_is_found_in_the_first_folder(self, folder):
        """Folders are looked through in their order, then PYTHONPATH; a module of a package by its dotted name."""
        (folder / "other").mkdir()
        (folder / "other" / "nets.py").write_text(NET.replace("0.1", "0.7"))
        sys.path.append(str(folder))

        assert own_model("nets:net", [folder / "other", folder]).settings().bound == 0.7
        assert own_model("nets:net", [folder / "group"]).settings().bound == 0.1
        assert own_model("group.inner:net", [folder]).settings().bound == 0.2

    @pytest.mark.parametrize(
        ("name", "problem"),
        [
            ("absent:net", 'no module "absent" in'),
            ("group.absent:net", 'no module "group.absent" in'),
            ("math:sqrt", 'no module "math" in'),
            ("nets:absent", 'has no function "absent"'),
            ("nets:Uniform", 'has a type and not a function "Uniform"'),
            ("nets:unknown", "the annotations of nets:unknown cannot be read: NameError: name 'Shape' is not defined"),
            ("queue:net", 'has the name of the module "queue", which others import'),
            ("torch.net:net", 'has the name of the module "torch"'),
            ("nets:untyped", 'the type of the setting "width"'),
            ("nets:of_tensors", 'the type of the setting "start"'),
            ("nets:any_number", "must take input_shape, rows"),
        ],
    )
    def test_what_cannot_be_named(self, folder, name, problem):
        """A module or function that is not there, and arguments that no manifest can hold, are refused with a way out."""
        fault = refusal(name, folder)

        assert fault.place == "model.name"
        assert problem in fault.problem
        assert fault.hint

    @pytest.mark.parametrize("text", ["def net(:", "1 / 0", "import no_such_module", "raise SystemExit(9)"])
    def test_file_that_does_not_load(self, folder, text):
        """A file that fails while it is run is named with what it raised, and leaves no half module behind."""
        (folder / "broken.py").write_text(text)

        assert f"{folder / 'broken.py'} does not load: " in refusal("broken:net", folder).problem
        assert "broken" not in sys.modules

    @pytest.mark.parametrize(
        ("name", "problem"),
        [
            ("nets:wrong", "returns int, not"),
            ("nets:estimated", r"returns a model whose flops are 2000000\.0, not a whole number"),
            ("nets:failing", r"shape \[2\]: ValueError: no 3"),
            ("nets:leaving", r"shape \[2\]: SystemExit: 7"),
        ],
    )
    def test_function_that_makes_no_model(self, folder, name, problem):
        """What the function raises, or returns instead of a model, is told as the user's own fault."""
        found = own_model(name, [folder])

        with pytest.raises(InputError, match=problem):
            found.make(found.settings(), (2,), 3)

    def test_catalog_looks_in_the_current_folder(self, folder, monkeypatch):
        """Runners find it in the folder that they are started in, and keep to what they read first."""
        monkeypatch.chdir(folder)
        (folder / "kept.py").write_text(NET)
        first = entry("model", "kept:net")
        (folder / "kept.py").write_text("")

        assert entry("model", "kept:net") is first
