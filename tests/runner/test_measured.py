"""What is measured of this machine decides how many workers there are and how they train, and stands beside each result."""

import json

import pytest

from contilab.hardware.fingerprint import this_machine
from contilab.hardware.profile import Answer, Rate, Shape, put
from contilab.plan.enqueue import enqueue
from contilab.runner.order import Order
from contilab.runner.progress import Lines
from contilab.runner.run import run
from contilab.runner.signals import StopFlag
from contilab.runner.staff import staff
from contilab.store.layout import Layout

MANIFEST = """
name = "many"
profile = "smoke"
[matrix]
preset = ["synthetic_class"]
method = ["naive", "er"]
seed = [0, 1, 2]
[overrides]
"train.epochs" = 1
"model.hidden" = [8]
"engine.max_members" = 1
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    """No measurement of the machine's user counts here."""
    monkeypatch.setenv("CONTILAB_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def root(tmp_path):
    """A store with a plan."""
    enqueue(tmp_path / "store", MANIFEST)
    return tmp_path / "store"


def keep(root, *, alone, together, batch):
    """Keep what bench would have measured of the plan's shape, with four processes and with one."""
    rates = (
        Rate("loop", "fp32", "off", 4, 1, alone, 0.0),
        Rate("loop", "fp32", "off", 1, 4, together, 0.0),
    )
    shape = Shape(this_machine(), "cpu", "mlp", {"hidden": [8]}, 20, batch, 1)
    put(Layout(root).hardware, shape, Answer(rates, "bench", "2026-01-01T00:00:00+00:00", 0.0), replaces=False)


class TestStaff:
    """The default of --workers."""

    @pytest.fixture(autouse=True)
    def _four_cores(self, monkeypatch):
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)))
        monkeypatch.setattr("contilab.hardware.threads.limits", lambda *_: type("Limits", (), {"cpus": None}))
        this_machine.cache_clear()
        yield
        this_machine.cache_clear()

    @pytest.mark.parametrize(("together", "workers"), [(130.0, 4), (70.0, 1)])
    def test_as_measured(self, root, together, workers):
        """What bench measured of the planned shape decides, and the reason says so."""
        batch = json.loads(next((root / "runs").iterdir()).read_text())["config"]["train"]["batch"]
        keep(root, alone=100.0, together=together, batch=batch)
        found = staff(Order(root), None, find_gpus=tuple)

        assert found.workers == workers
        assert f"bench measured 4 processes at {together / 100:.2f} times" in found.reason

    @pytest.mark.parametrize(("together", "workers"), [(150.0, 3), (130.0, 1)])
    def test_fewer_groups_than_processors(self, tmp_path, together, workers):
        """For three groups three of the four processes that were measured count."""
        root = tmp_path / "few"
        enqueue(root, MANIFEST, ["matrix.method=['er']"])
        batch = json.loads(next((root / "runs").iterdir()).read_text())["config"]["train"]["batch"]
        keep(root, alone=100.0, together=together, batch=batch)

        assert staff(Order(root), None, find_gpus=tuple).workers == workers

    def test_of_another_shape(self, root):
        """What bench measured of other work decides nothing."""
        keep(root, alone=100.0, together=1.0, batch=1)

        assert staff(Order(root), None, find_gpus=tuple).workers == 4


class TestResults:
    """What env.json says."""

    def test_neighbours(self, root):
        """The cores that other processes used while the group trained stand beside each result."""
        run(Order(root), StopFlag(), Lines())
        found = [json.loads(path.read_text()) for path in (root / "results").glob("*/env.json")]

        assert len(found) == 6
        assert all(0 <= environment["foreign_cores"] < 10_000 for environment in found)
        assert all(environment["execution"]["reason"].startswith("not measured") for environment in found)

    def test_measured_once_for_all_runners(self, root, monkeypatch):
        """What the first group measures is kept in the store, and every later one finds it there."""
        monkeypatch.setattr("contilab.engine.choice.trial.LEAST_SECONDS", 0.0)
        run(Order(root), StopFlag(), Lines())
        reasons = {json.loads(path.read_text())["execution"]["reason"] for path in (root / "results").glob("*/env.json")}

        assert len(list(Layout(root).hardware.iterdir())) == 2  # one for naive, one for er
        assert len(reasons) == 2
        assert all(reason.startswith("measured by auto") for reason in reasons)
