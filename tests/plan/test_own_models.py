"""Models of a user's own in a plan: their file's hash is part of every address, and a runner with another file is told so."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contilab import catalog
from contilab.errors import ManifestError
from contilab.plan.enqueue import enqueue
from contilab.runner.numerics import mismatch
from contilab.store.store import open_store

TEXT = """
name = "own"
profile = "smoke"
[matrix]
preset = ["synthetic_class"]
method = ["naive"]
seed = [0]
"model.name" = ["mlp", "ownnets:net"]
"""
NET = '''
from math import prod

from contilab.models.contract import Forward, Model, Uniform


def net(input_shape: tuple[int, ...], rows: int, *, bound: float = 0.1) -> Model:
    """A linear model."""
    table = {"weight": Uniform((rows, prod(input_shape)), bound)}
    return Model(table, lambda params, _, x: Forward(x, x @ params["weight"].T), 2 * rows * prod(input_shape))
'''


@pytest.fixture
def manifest(tmp_path: Path) -> Iterator[Path]:
    """Yield the path of a manifest with a file of models beside it; leave Python's search path as it was."""
    (tmp_path / "ownnets.py").write_text(NET)
    path = list(sys.path)
    yield tmp_path / "m.toml"
    sys.path[:] = path
    sys.modules.pop("ownnets", None)


def planned(manifest: Path, *values: str) -> dict[str, str]:
    """Plan the manifest into a store beside it and return the tag of the model of each of its runs, by address."""
    root = manifest.parent / "store"
    enqueue(root, TEXT, values, place=str(manifest))
    store = open_store(root)
    rids = [rid for cell in store.study("own").cells for rid in cell.runs.values()]
    return {rid: store.run(rid).numerics["model"] for rid in rids}


class TestPlan:
    """A plan with a model of one's own."""

    def test_found_beside_the_manifest(self, manifest: Path) -> None:
        """It stands in the matrix beside models of the catalog, and its arguments are keys of the manifest."""
        tags = planned(manifest, "model.bound=0.5").values()

        assert sorted(tag.partition("/")[0] for tag in tags) == ["mlp", "ownnets:net"]

    def test_an_edit_is_another_run(self, manifest: Path) -> None:
        """After any edit of the file its runs have other addresses, those of other models the same; undone, the old ones."""
        before = planned(manifest)
        (manifest.parent / "ownnets.py").write_text(NET + "# edited\n")
        after = planned(manifest)
        (manifest.parent / "ownnets.py").write_text(NET)

        assert [tag for rid, tag in before.items() if rid in after] == ["mlp/1"]
        assert planned(manifest) == before

    @pytest.mark.parametrize(
        ("values", "place", "problem"),
        [
            (["matrix.model.name=['absent:net']"], "m.toml: model.name", 'no module "absent"'),
            (["matrix.model.name=['ownnets:net', 'ownnets:other']"], "m.toml: model.name", 'no function "other"'),
            (["model.bound='much'"], "command line: model.bound", "much"),
            (["matrix.model.name=['convnet']"], "m.toml: model.name of preset synthetic_class", "needs images"),
        ],
    )
    def test_refused_before_anything_is_written(self, manifest: Path, values: list[str], place: str, problem: str) -> None:
        """A missing file or function, a wrong setting, and a model that cannot take the inputs are faults of the manifest."""
        with pytest.raises(ManifestError) as raised:
            planned(manifest, *values)

        (fault,) = raised.value.faults
        assert fault.place.endswith(place)
        assert problem in fault.problem
        assert not (manifest.parent / "store").exists()


class TestRunner:
    """What a runner makes of a run with a model of one's own."""

    @pytest.fixture
    def problem(self, manifest: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], str]]:
        """Yield a function: why a runner started in a folder does not fit the planned run, or an empty text."""
        tags = planned(manifest)
        run = open_store(manifest.parent / "store").run(next(rid for rid, tag in tags.items() if tag.startswith("ownnets")))
        sys.path.remove(str(manifest.parent))  # the planner's process put it there
        catalog._own_model.cache_clear()

        def found(folder: Path) -> str:
            monkeypatch.chdir(folder)
            fault = mismatch(run)
            return fault.problem if fault else ""

        yield found
        catalog._own_model.cache_clear()

    def test_same_file(self, problem: Callable[[Path], str], manifest: Path) -> None:
        """With the same file it fits."""
        assert problem(manifest.parent) == ""

    def test_other_file(self, problem: Callable[[Path], str], tmp_path: Path) -> None:
        """With another file the run is skipped, and both tags are named."""
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "ownnets.py").write_text(NET + "# edited\n")

        assert re.search(r"model ownnets:net/\w+ \(here ownnets:net/\w+\)", problem(tmp_path / "elsewhere"))

    def test_no_file(self, problem: Callable[[Path], str], tmp_path: Path) -> None:
        """Without the file the run is skipped, and the sentence says where it was looked for."""
        (tmp_path / "elsewhere").mkdir()
        expected = (
            f'was planned with ownnets:net, but there is no module "ownnets" in {tmp_path / "elsewhere"} or on PYTHONPATH'
        )

        assert problem(tmp_path / "elsewhere") == expected
