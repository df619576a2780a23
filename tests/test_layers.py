"""The house keeps its layers: imports point down, files are short, and package roots are empty.

The table of layers stands below. Imports are read from the source of every file, so lazy and typing-only ones count.
"""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import contilab

ROOT = Path(contilab.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

LAYERS = (
    {"errors"},
    {"spec", "records", "disk"},
    {"manifest", "store", "hardware", "data", "models", "optim", "strategies", "consolidate", "metrics", "rehearsal"},
    {"catalog"},
    {"engine", "report"},
    {"plan", "runner", "bench"},
    {"cli"},
)
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages} | {"__main__": len(LAYERS)}

# (importing package, imported module): why it may
SIDEWAYS = {
    ("consolidate", "contilab.strategies.contract"): "a consolidator trains experts with the losses and batches of strategies",
}
DOORS = {
    "metrics": "contilab.metrics.from_matrix, for notebooks",
    "report": "contilab.report.load, for notebooks",
}
TORCH_FREE = ("errors", "spec", "records", "disk", "manifest", "store", "metrics", "catalog", "report", "cli")
DRAWERS = {"util", "utils", "common", "misc", "helper", "helpers"}
FILE_LINES, BODY_LINES = 300, 50


@cache
def parsed(path):
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def told(found, paths=FILES):
    """Return what was *found* of each of *paths*, by name, where that is anything: hundreds of tests would take longer."""
    return {str(path.relative_to(ROOT)): value for path in paths if (value := found(path))}


def package_of(path):
    """Return the package of contilab that a file belongs to; "" for the root itself."""
    first = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imported(tree):
    """Return the modules of contilab that a file imports anywhere, under any condition, by statement or by name."""
    modules = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules += [alias.name for alias in names]
            case ast.ImportFrom(level=0, module="contilab", names=names):
                modules += [f"contilab.{alias.name}" for alias in names]
            case ast.ImportFrom(level=0, module=str(module)):
                modules.append(module)
            case ast.ImportFrom():
                modules.append("contilab.(relative)")
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"), args=[first, *_]
            ):
                modules += [first.value] if isinstance(first, ast.Constant) else []
    return [module for module in modules if module.split(".")[0] == "contilab"]


def wrong_imports(package, tree):
    """Return the imports of a file of *package* that do not point down."""
    return [
        module
        for module in imported(tree)
        if (target := [*module.split("."), ""][1]) != package
        and LEVEL.get(target, len(LAYERS)) >= LEVEL.get(package, -1)
        and (package, module) not in SIDEWAYS
    ]


def long_bodies(tree):
    """Return names and lengths of the functions whose bodies, docstrings not counted, exceed the limit."""
    long = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            length = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            long |= {node.name: length} if length > BODY_LINES else {}
    return long


class TestImports:
    """Imports point down."""

    def test_point_down(self):
        """No file imports from its own row or from above, lazily and for typing included."""
        assert told(lambda path: wrong_imports(package_of(path), parsed(path))) == {}

    def test_every_package_has_a_layer(self):
        """The table knows every package, so a new one is placed before it is used."""
        assert {package_of(path) for path in FILES} - {"", *LEVEL} == set()

    @pytest.mark.parametrize(
        ("package", "source", "wrong"),
        [
            ("engine", "from contilab.spec.run import Run", []),
            ("engine", "from contilab.engine.step import step", []),
            ("engine", "import contilab.runner.run", ["contilab.runner.run"]),
            ("engine", "from contilab import catalog, report", ["contilab.report"]),
            ("store", "def f():\n    from contilab.manifest import read", ["contilab.manifest"]),
            ("spec", "if TYPE_CHECKING:\n    from contilab.engine.step import step", ["contilab.engine.step"]),
            ("disk", "from importlib import import_module\nimport_module('contilab.store.layout')", ["contilab.store.layout"]),
            ("disk", "from . import lock", ["contilab.(relative)"]),
            ("errors", "from contilab.nowhere import thing", ["contilab.nowhere"]),
            ("consolidate", "from contilab.strategies.contract import Batch", []),
            ("consolidate", "from contilab.strategies.er import er", ["contilab.strategies.er"]),
            ("", "from contilab.errors import Fault", ["contilab.errors"]),
        ],
    )
    def test_wrong_ones_are_found(self, package, source, wrong):
        """The check itself finds upward, sideways, lazy, typing-only, named and relative imports, and nothing else."""
        assert wrong_imports(package, ast.parse(source)) == wrong

    def test_light_packages_do_not_load_torch(self):
        """Importing every module of the light packages loads no torch, so `contilab status` answers at once."""
        names = [
            ".".join(("contilab", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
            for path in FILES
            if package_of(path) in TORCH_FREE
        ]
        program = (
            "import sys, importlib\n"
            "for name in sys.argv[1:]:\n"
            "    importlib.import_module(name)\n"
            "    if 'torch' in sys.modules:\n"
            "        sys.exit(f'{name} loads torch')\n"
        )
        done = subprocess.run([sys.executable, "-c", program, *names], capture_output=True, text=True, check=False)

        assert (done.returncode, done.stderr) == (0, "")


class TestFiles:
    """Files are short and have names that say what they hold."""

    def test_are_short(self):
        """No file has more than 300 lines, and no function body more than 50."""
        assert told(lambda path: len(path.read_text(encoding="utf-8").splitlines()) > FILE_LINES) == {}
        assert told(lambda path: long_bodies(parsed(path))) == {}

    def test_long_bodies_are_found(self):
        """The check itself counts a body without its docstring, nested functions included."""
        lines = "\n".join(f"        x = {index}" for index in range(51))
        source = f'def outer():\n    """Docs."""\n    def inner():\n{lines}\n'

        assert long_bodies(ast.parse(source)) == {"outer": 52, "inner": 51}

    def test_no_drawer(self):
        """No file or folder is a drawer for things without a name."""
        assert told(lambda path: DRAWERS.intersection(path.relative_to(ROOT).with_suffix("").parts)) == {}

    def test_package_roots_are_empty(self):
        """A package root holds its docstring; the two doors for notebooks hold imports and `__all__` besides."""
        roots = [path for path in FILES if path.name == "__init__.py"]
        doors = [path for path in roots if package_of(path) in DOORS and path.parent.parent == ROOT]

        def extra(path):
            found = {type(node).__name__ for node in parsed(path).body[1:]}
            return found - {"ImportFrom", "Assign"} if path in doors else found

        assert told(lambda path: not ast.get_docstring(parsed(path)), roots) == {}
        assert told(extra, roots) == {}
