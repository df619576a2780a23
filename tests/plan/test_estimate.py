import pytest

from contilab.hardware.profile import Answer, Rate
from contilab.manifest.resolve import resolve
from contilab.plan.estimate import PROCESS_BYTES, SIDECAR_BYTES, Costs, Estimate, estimate
from contilab.plan.expand import expand
from contilab.plan.menu import catalog_menu
from contilab.plan.speed import Answers

HEAD = 'name = "a"\nprofile = "cpu"\n[matrix]\npreset = ["split_mnist_class"]\nmethod = ["naive"]\nseed = [0, 1]\n'
PARAMETERS = 478_410  # MLP 784-400-400-10
FORWARD_FLOPS = 955_200  # 2 (784 x 400 + 400 x 400 + 400 x 10)


def _estimate(*values: str, members: int = 1, answers: Answers = ()) -> Estimate:
    study = expand(resolve(HEAD, place="m.toml", values=values, menu=catalog_menu()), catalog_menu())
    alike = [[study.runs[rid] for rid in cell.runs.values()] for cell in study.cells]
    return estimate(alike, dict.fromkeys(study.runs, members), Costs(study.sources, catalog_menu()), answers)


class TestEstimate:
    """What open runs take."""

    def test_naive(self) -> None:
        """Samples, operations and disk of two runs on Split MNIST follow from its shapes."""
        found = _estimate("benchmark.validation=0")

        assert (found.runs, found.train_samples) == (2, 2 * 60_000)
        assert found.flops == found.train_samples * 3 * FORWARD_FLOPS
        assert found.disk_bytes == 2 * (SIDECAR_BYTES + 4 * PARAMETERS + 10_000 * (6 * 8 + 2))

    def test_validation(self) -> None:
        """What is held out is not trained on."""
        assert _estimate("benchmark.validation=0.5").train_samples == 60_000

    def test_steps(self) -> None:
        """With steps per task, samples are tasks x steps x batch."""
        assert _estimate("train.steps=7", "train.batch=10").train_samples == 2 * 5 * 7 * 10

    def test_replay(self) -> None:
        """A replayed batch of the same size doubles the samples of a step."""
        assert _estimate('matrix.method=["er"]', "train.steps=7", "train.batch=10").train_samples == 2 * 2 * 5 * 7 * 10

    @pytest.mark.parametrize(
        ("method", "samples"),
        [
            ("cumulative", 12_000 * (1 + 2 + 3 + 4 + 5)),
            ("icarl", 5 * 12_000 + 4 * 500),
            ("gdumb", 5 * 128 * 500),
        ],
    )
    def test_stages_of_other_data(self, method: str, samples: int) -> None:
        """All data so far, exemplars beside each task, and passes over memory alone are what such methods train on."""
        found = _estimate(f'matrix.method=["{method}"]', "benchmark.validation=0", "memory.total=500")

        assert found.train_samples == 2 * samples

    def test_teacher(self) -> None:
        """A teacher's forward pass on every sample after the first task is counted."""
        found = _estimate('matrix.method=["icarl"]', "benchmark.validation=0", "memory.total=500")

        assert found.flops == 2 * FORWARD_FLOPS * (3 * 62_000 + 4 * 12_500)

    def test_importance(self) -> None:
        """Importance passes at the end of each task are counted."""
        plain, ewc = _estimate("train.steps=7"), _estimate('matrix.method=["ewc"]', "train.steps=7")

        assert ewc.flops - plain.flops == 2 * 5 * 1024 * 3 * FORWARD_FLOPS

    @pytest.mark.parametrize("members", [1, 8])
    def test_memory_of_a_group(self, members: int) -> None:
        """A group needs the data once, and parameters, gradients and their update per member."""
        data = 784 * 70_000  # bytes

        expected = PROCESS_BYTES + data + members * (3 * 4 * PARAMETERS + 2 * 4)  # and learning rate and decay

        assert _estimate(members=members).memory_bytes == expected

    def test_states(self) -> None:
        """States of optimiser and method are counted: one velocity, two moments of Adam, three copies of ewc."""
        copy, rate = 4 * PARAMETERS, 4
        base = _estimate().memory_bytes

        assert _estimate("optim.momentum=0.9").memory_bytes - base == copy
        assert _estimate("optim.name=adam").memory_bytes - base == pytest.approx(2 * copy, abs=2 * rate + 8)
        assert _estimate('matrix.method=["ewc"]').memory_bytes - base == pytest.approx(3 * copy, abs=8 * rate)

    @pytest.mark.parametrize(("setting", "entries"), [("memory.total=1000", 1000), ("memory.per_class=20", 200)])
    def test_replay_memory(self, setting: str, entries: int) -> None:
        """A replay memory holds an index per entry, not a sample."""
        one = _estimate('matrix.method=["er"]', "memory.total=1").memory_bytes

        assert _estimate('matrix.method=["er"]', setting).memory_bytes - one == 8 * (entries - 1)

    def test_parameters_left_out(self) -> None:
        """Runs that keep no parameters take their room only for predictions."""
        kept, left_out = _estimate(), _estimate("eval.keep_parameters=false")

        assert kept.disk_bytes - left_out.disk_bytes == 2 * 4 * PARAMETERS

    def test_features(self) -> None:
        """With the tier extended a member keeps earlier parameters, and 400 features of 1,000 samples of five tasks."""
        core, extended = _estimate(), _estimate("eval.tier=extended")

        assert extended.memory_bytes - core.memory_bytes == 4 * PARAMETERS + 5 * 4 * 1000 * 400

    def test_landscape(self) -> None:
        """With everything recorded, parameters and gradients of five tasks take their room, and their cosines on the disk."""
        extended, full = _estimate("eval.tier=extended"), _estimate("eval.tier=full")

        assert full.memory_bytes - extended.memory_bytes == 2 * 5 * 4 * PARAMETERS
        assert full.disk_bytes - extended.disk_bytes == 2 * 8 * (5**3 + 5 * 12)

    def test_kept(self) -> None:
        """What a result keeps: 400 features of 2,000 samples after five tasks, and the parameters of five tasks."""
        full, features = _estimate("eval.tier=full"), _estimate("eval.tier=full", "eval.keep_features=true")
        trajectory = _estimate("eval.tier=full", "eval.keep_trajectory=true")

        assert features.disk_bytes - full.disk_bytes == 2 * 16_000_000
        assert features.memory_bytes - full.memory_bytes == 2 * 16_000_000
        assert trajectory.disk_bytes - full.disk_bytes == 2 * 5 * 4 * PARAMETERS

    def test_joint(self) -> None:
        """Joint training sees as many samples and leaves two rows of predictions."""
        plain, joint = _estimate(), _estimate('matrix.method=["joint"]')

        assert joint.train_samples == plain.train_samples
        assert plain.disk_bytes - joint.disk_bytes == 2 * 10_000 * 4 * 8

    def test_time(self) -> None:
        """Time is not guessed, and the reason is said."""
        found = _estimate()

        assert found.seconds is None
        assert found.seconds_basis.startswith("unknown: ")

    def test_as_measured(self) -> None:
        """What bench measured of the same shape gives time and the memory of a member, its activations included."""
        rate = Rate("vmap", "fp32", "off", 1, 2, 10_000.0, 0.0, member_bytes=10**9)
        shape = {"model": "mlp", "settings": {"hidden": [400, 400]}, "features": 784, "batch": 64, "members": 8}
        answers = [(shape, Answer((rate,), "bench", "2026-01-01T00:00:00+00:00", 0.0))]
        found = _estimate("benchmark.validation=0", members=8, answers=answers)

        assert found.seconds == 2 * 60_000 / 10_000
        assert found.seconds_basis.startswith("sure: ")
        assert found.memory_bytes == PROCESS_BYTES + 784 * 70_000 + 8 * 10**9
        assert found.memory_basis.startswith("members as bench measured them")

    def test_nothing_open(self) -> None:
        """Without open runs nothing is needed."""
        assert estimate([[]], {}, Costs({}, catalog_menu()))[:5] == (0, 0, 0, 0, 0)
