"""The worked examples in docstrings are right: every one of them is executed."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import contilab
from contilab import catalog

ROOT = Path(contilab.__file__).parent
FILES = sorted(path for path in ROOT.rglob("*.py") if "\n    >>> " in path.read_text(encoding="utf-8"))
MODULES = [".".join(("contilab", *path.relative_to(ROOT).with_suffix("").parts)) for path in FILES]


@pytest.mark.parametrize("module", MODULES)
def test_examples_hold(module):
    """Every example of the module prints what its docstring says."""
    result = doctest.testmod(import_module(module))

    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("reference", catalog.STRATEGIES.values())
def test_every_strategy_has_an_example(reference):
    """A reader of a strategy finds a worked example in its file."""
    assert reference.partition(":")[0] in MODULES
