import os
import subprocess
import sys
from pathlib import Path

import pytest

from contilab.errors import ManifestError, StoreError
from contilab.plan.enqueue import enqueue
from contilab.store.store import open_store

TEXT = 'name = "a"\nprofile = "smoke"\n[matrix]\npreset = ["synthetic_class"]\nmethod = ["naive", "er"]\nseed = [0, 1, 2]\n'


def _files(root: Path) -> dict[str, tuple[bytes, int]]:
    """Return content and inode of every file below *root*."""
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_ino)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


class TestPlan:
    """What a plan writes."""

    def test_what_is_written(self, tmp_path: Path) -> None:
        """A plan writes each run, groups of those that can be trained together, and the study that names them."""
        planned = enqueue(tmp_path, TEXT, ["train.epochs=2"])
        store = open_store(tmp_path)

        assert planned[:7] == ("a", 2, 6, 0, 6, 2, 1)
        study = store.study("a")
        assert (study.manifest, study.values, len(study.rids)) == (TEXT, ("train.epochs=2",), 6)
        assert sorted(len(group) for group in store.groups().values()) == [3, 3]
        assert {store.run(rid).train.epochs for rid in study.rids} == {2}

    def test_which_cells_take_longer(self, tmp_path: Path) -> None:
        """A plan notes what a run of each cell takes: er, which replays a batch with each new one, twice as much."""
        enqueue(tmp_path, TEXT)
        naive, er = open_store(tmp_path).study("a").cells

        assert 0 < 1.9 * naive.flops < er.flops < 2.1 * naive.flops

    def test_planning_twice(self, tmp_path: Path) -> None:
        """The same plan again writes nothing and says so."""
        enqueue(tmp_path, TEXT)
        before = _files(tmp_path)
        again = enqueue(tmp_path, TEXT)

        assert (again.new_runs, again.new_groups, again.number) == (0, 0, 1)
        assert _files(tmp_path) == before

    def test_two_more_seeds(self, tmp_path: Path) -> None:
        """Two more seeds enqueue exactly the new runs; what was there stays as it was."""
        enqueue(tmp_path, TEXT)
        before = _files(tmp_path)
        more = enqueue(tmp_path, TEXT, ["matrix.seed=[0, 1, 2, 3, 4]"])
        store = open_store(tmp_path)

        assert (more.runs, more.new_runs, more.new_groups, more.number) == (10, 4, 2, 2)
        assert before.items() <= _files(tmp_path).items()
        new = [rid for cell in store.study("a").cells for seed, rid in cell.runs.items() if seed > 2]
        assert sorted(rid for group in store.groups().values() for rid in group if rid in new) == sorted(new)
        assert sorted(len(group) for group in store.groups().values()) == [2, 2, 3, 3]

    def test_fewer_seeds(self, tmp_path: Path) -> None:
        """A plan never deletes: runs that left the manifest stay."""
        enqueue(tmp_path, TEXT)
        before = _files(tmp_path)
        less = enqueue(tmp_path, TEXT, ["matrix.seed=[0]"])

        assert (less.runs, less.new_runs) == (2, 0)
        assert before.items() <= _files(tmp_path).items()

    def test_study_that_shares_runs(self, tmp_path: Path) -> None:
        """A second study that wants the same runs adds only itself."""
        enqueue(tmp_path, TEXT)
        other = enqueue(tmp_path, TEXT, ["name=b"])

        assert (other.new_runs, other.new_groups, other.number) == (0, 0, 1)
        assert set(open_store(tmp_path).studies()) == {"a", "b"}

    def test_plan_killed_between_runs_and_groups(self, tmp_path: Path) -> None:
        """Runs without a group are batched by the next plan."""
        enqueue(tmp_path, TEXT)
        for path in [*(tmp_path / "groups").iterdir(), *(tmp_path / "studies").rglob("*.json")]:
            path.unlink()
        again = enqueue(tmp_path, TEXT)

        assert (again.new_runs, again.new_groups, again.number) == (0, 2, 1)

    def test_runs_with_a_result(self, tmp_path: Path) -> None:
        """A run under whose result name something lies is not batched again, and is done only if that is complete."""
        enqueue(tmp_path, TEXT)
        rid, *_ = open_store(tmp_path).study("a").rids
        (tmp_path / "results" / rid).mkdir()
        for path in (tmp_path / "groups").iterdir():
            path.unlink()
        again = enqueue(tmp_path, TEXT)

        assert (again.done, again.new_groups) == (0, 2)
        assert sorted(len(group) for group in open_store(tmp_path).groups().values()) == [2, 3]

    def test_hash_seeds(self, tmp_path: Path) -> None:
        """Another process with another hash seed writes the same bytes under the same names."""
        program = (
            f"import sys, pathlib; from contilab.plan.enqueue import enqueue; enqueue(pathlib.Path(sys.argv[1]), {TEXT!r})"
        )
        here, there = tmp_path / "here", tmp_path / "there"
        other = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
        enqueue(here, TEXT)
        subprocess.run([sys.executable, "-c", program, there], env={**os.environ, "PYTHONHASHSEED": other}, check=True)

        assert {name: content for name, (content, _) in _files(here).items()} == {
            name: content for name, (content, _) in _files(there).items()
        }


class TestRefusals:
    """A plan that is refused."""

    @pytest.mark.parametrize("values", [["train.epochs=0"], ["benchmark.tasks=7"]], ids=["manifest", "data"])
    def test_nothing_is_written(self, values: list[str], tmp_path: Path) -> None:
        """A fault anywhere means that nothing is written, not even an empty store."""
        root = tmp_path / "store"
        with pytest.raises(ManifestError):
            enqueue(root, TEXT, values)

        assert not root.exists()

    def test_run_with_other_bytes(self, tmp_path: Path) -> None:
        """A run's name that holds something else is refused by name."""
        enqueue(tmp_path, TEXT)
        rid, *_ = open_store(tmp_path).study("a").rids
        (tmp_path / "runs" / f"{rid}.json").write_text("{}")
        for path in (tmp_path / "groups").iterdir():
            path.unlink()

        with pytest.raises(StoreError, match=rid):
            enqueue(tmp_path, TEXT)


class TestDryRun:
    """A plan that only looks."""

    def test_without_a_store(self, tmp_path: Path) -> None:
        """A dry run tells what would be new, and makes no store."""
        root = tmp_path / "store"
        planned = enqueue(root, TEXT, is_dry_run=True)

        assert planned[:7] == ("a", 2, 6, 0, 6, 2, 0)
        assert planned.estimate.runs == 6
        assert not root.exists()

    def test_with_a_store(self, tmp_path: Path) -> None:
        """A dry run on a store counts what is already there, and writes nothing."""
        enqueue(tmp_path, TEXT)
        before = _files(tmp_path)
        planned = enqueue(tmp_path, TEXT, ["matrix.seed=[0, 9]"], is_dry_run=True)

        assert (planned.runs, planned.new_runs, planned.new_groups, planned.number) == (4, 2, 2, 0)
        assert _files(tmp_path) == before


class TestScale:
    """Large studies."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "axes",
        ["seed = {0}", '"optim.lr" = {1}\n"benchmark.class_order_seed" = {2}\nseed = [0]'],
        ids=["many seeds", "many cells"],
    )
    def test_10000_runs(self, axes: str, tmp_path: Path) -> None:
        """10,000 runs are planned, as many seeds and as many cells; `tests/bench/store.py` tells how long it takes."""
        varied = axes.format(list(range(1250)), [(index + 1) / 1000 for index in range(125)], list(range(10)))
        names = 'preset = ["split_mnist_class", "synthetic_task"]\nmethod = ["naive", "joint", "ewc", "er"]'
        text = f'name = "a"\n[matrix]\n{names}\n{varied}'

        assert enqueue(tmp_path, text).new_runs == 10_000
