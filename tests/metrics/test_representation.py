"""Formulas of features and of parameters, and the metrics that read what the engine measured with them."""

import numpy as np
import pytest

from contilab.metrics.compute import compute
from contilab.metrics.contract import Absent, Missing
from contilab.metrics.landscape import cosine, loss_barrier, pairs_of
from contilab.metrics.representation import dormant_share, effective_rank, linear_cka, rank_of, ridge_probe
from contilab.metrics.table import METRICS, metric
from contilab.metrics.tensor import RECORDED
from contilab.records.record import Record

X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0]])
Y = np.array([[1.0, 1.0], [0.0, 2.0], [2.0, 1.0], [1.0, 0.0]])
NAN = float("nan")
MEASURED = {
    "probe_accuracy": np.array([[0.9, 0.5], [0.8, 0.9]]),
    "cka": np.array([0.7, 1.0]),
    "effective_rank": np.array([3.0, 2.5]),
    "dormant_share": np.array([[0.0, 0.0], [0.5, 0.1]]),
    "dead_share": np.array([[0.0, 0.0], [0.25, 0.0]]),
    "drift": np.array([3.0, 1.0]),
    "drift_relative": np.array([0.3, 0.1]),
    "interpolation_loss": np.array([[1.0, 3.0, 2.0]]),
    "gradient_cosine": np.array([[[1.0, NAN], [NAN, 1.0]], [[1.0, -0.5], [-0.5, 1.0]]]),
    "few_shot_accuracy": np.array([0.8]),
    "perplexity": np.array([20.0, 30.0, 40.0]),
}
EXPECTED = {
    "probe_acc": 0.85,
    "representation_forgetting": 0.1,
    "cka_final": 0.7,
    "effective_rank": 2.5,
    "dormant_share": 0.3,
    "dead_share": 0.125,
    "drift": 2.0,
    "drift_relative": 0.2,
    "loss_barrier": 1.5,
    "grad_cosine": -0.5,
    "interference": 1.0,
    "few_shot_recovery": 0.75,
    "ppl_retention": 0.5,
}

LABELS = np.array([0, 1, 0, 1])
FORMULAS = {
    "linear_cka": lambda: linear_cka(*kept(X, Y)),
    "linear_cka of few samples": lambda: linear_cka(*kept(X.T, Y.T)),
    "effective_rank": lambda: effective_rank(*kept(X)),
    "dormant_share": lambda: dormant_share(*kept(X[0])),
    "ridge_probe": lambda: ridge_probe(*kept(X, LABELS), 2),
    "ridge_probe of few samples": lambda: ridge_probe(*kept(X.T, LABELS[:2]), 2),
    "rank_of": lambda: rank_of(*kept(X[3])),
    "cosine": lambda: cosine(*kept(X[2], X[3])),
    "loss_barrier": lambda: loss_barrier(*kept(X[:, 0])),
    "pairs_of": lambda: pairs_of(*kept(MEASURED["gradient_cosine"])),
}


def kept(*values):
    """Return copies of arrays that raise where somebody writes into them."""
    copies = [value.copy() for value in values]
    for copy in copies:
        copy.setflags(write=False)
    return copies


def record(accuracy=((0.9, 0.1), (0.5, 0.9)), **changes):
    """Return a record of two tasks."""
    rows = [list(row) for row in accuracy]
    facts = {"scenario": "task", "tasks": 2, "head_rows": 4, "task_rows": [[0, 1], [2, 3]], "test_samples": [5, 5], "stages": 2}
    return Record(**{**facts, "accuracy": rows, "baseline": [0.5, 0.5], "accuracy_all_rows": rows, **changes})


class TestCka:
    """Similarity of two sets of features."""

    def test_by_hand(self):
        """The published check."""
        assert linear_cka(X, Y) == pytest.approx(0.717137, abs=5e-7)

    @pytest.mark.parametrize("change", [X, 3 * X, X @ np.array([[0.6, -0.8], [0.8, 0.6]]), X + 7])
    def test_what_it_does_not_see(self, change):
        """Features are as similar as can be to themselves, scaled, rotated or moved."""
        assert linear_cka(X, change) == pytest.approx(1.0, abs=1e-12)

    def test_more_features_than_samples(self):
        """By products of samples it is what it is by products of features, whichever side has more of them."""
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(9, 14)), rng.normal(size=(9, 5))
        a, b = x - x.mean(0), y - y.mean(0)
        by_features = np.linalg.norm(b.T @ a) ** 2 / (np.linalg.norm(a.T @ a) * np.linalg.norm(b.T @ b))

        assert [linear_cka(x, y), linear_cka(y, x)] == pytest.approx([by_features] * 2, rel=1e-12)

    def test_constant_features(self):
        """Without any variance it is not defined."""
        with pytest.raises(Missing, match="constant"):
            linear_cka(X, np.ones((4, 3)))


class TestRank:
    """The effective rank."""

    def test_by_hand(self):
        """Singular values (3, 1) and (2, 2, 2)."""
        assert rank_of(np.array([3.0, 1.0])) == pytest.approx(1.75477, abs=5e-6)
        assert rank_of(np.array([2.0, 2.0, 2.0])) == pytest.approx(3.0, abs=1e-12)

    def test_of_features(self):
        """Features on a line through anywhere have rank one."""
        line = np.outer(np.arange(6.0), [1.0, 2.0, 3.0]) + 5

        assert effective_rank(line) == pytest.approx(1.0, abs=1e-6)

    def test_no_variance(self):
        """Where all singular values are 0 it is not defined."""
        with pytest.raises(Missing, match="all singular values are 0"):
            effective_rank(np.ones((4, 2)))


class TestUnits:
    """Units that do nothing."""

    def test_by_hand(self):
        """Two of four units are below the threshold; at threshold 0 only the one that never fires."""
        activity = np.array([0.5, 0.0, 0.01, 1.49])

        assert (dormant_share(activity), dormant_share(activity, 0.0)) == (0.5, 0.25)

    def test_a_dead_layer(self):
        """A layer that is all zero is dormant as a whole."""
        assert dormant_share(np.zeros(3)) == 1.0


class TestProbe:
    """The ridge probe."""

    def test_it_is_the_least_squares_solution_with_a_penalty(self):
        """Weights solve the penalised normal equations of centred features; the offsets are those of the means."""
        rng = np.random.default_rng(0)
        x, labels = rng.normal(size=(40, 3)) + 2, rng.integers(0, 2, 40)
        weights, offsets = ridge_probe(x, labels, 2)
        centred, target = x - x.mean(0), np.eye(2)[labels]
        penalty = 1e-3 * np.trace(centred.T @ centred) / 3
        gradient = centred.T @ (x @ weights + offsets - target) + penalty * weights

        assert np.abs(gradient).max() < 1e-9
        assert np.allclose((x @ weights + offsets).mean(0), target.mean(0))

    def test_more_features_than_samples(self):
        """Solved by products of samples, it is the same probe: the gradient of the penalised squares vanishes there too."""
        rng = np.random.default_rng(0)
        x, labels = rng.normal(size=(12, 30)) + 2, np.arange(12) % 3
        weights, offsets = ridge_probe(x, labels, 3)
        centred, target = x - x.mean(0), np.eye(3)[labels]
        penalty = 1e-3 * np.trace(centred.T @ centred) / 30
        gradient = centred.T @ (x @ weights + offsets - target) + penalty * weights

        assert np.abs(gradient).max() < 1e-9
        assert weights.shape == (30, 3)

    def test_constant_features(self):
        """Without any variance there is nothing to read."""
        with pytest.raises(Missing, match="constant"):
            ridge_probe(np.ones((4, 3)), np.array([0, 0, 1, 1]), 2)


class TestParameters:
    """Drift, barriers and gradients."""

    def test_barrier_by_hand(self):
        """The loss in the middle lies 1.5 above the line between the ends; below the line there is none."""
        assert loss_barrier(np.array([1.0, 3.0, 2.0])) == 1.5
        assert loss_barrier(np.array([1.0, 0.5, 2.0])) == 0.0

    def test_cosine(self):
        """Opposed gradients have -1, and a zero gradient has no direction."""
        assert cosine(np.array([1.0, 1.0]), np.array([-2.0, -2.0])) == pytest.approx(-1.0)
        with pytest.raises(Missing, match="a gradient is zero"):
            cosine(np.zeros(2), np.ones(2))

    def test_pairs(self):
        """Each pair counts once per stage in which both were measured."""
        assert pairs_of(MEASURED["gradient_cosine"]).tolist() == [-0.5]
        with pytest.raises(Missing, match="no two tasks"):
            pairs_of(np.full((1, 2, 2), NAN))


class TestFormulas:
    """All formulas alike."""

    @pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS)
    def test_writes_into_nothing(self, formula):
        """Formulas take arrays that cannot be written into: features and gradients are still needed afterwards."""
        assert formula() is not None


class TestRecords:
    """The metrics of a record."""

    def test_values(self):
        """Each is read from what the engine measured."""
        values = compute(record(), MEASURED)

        assert {name: values[name] for name in EXPECTED} == pytest.approx(EXPECTED, abs=1e-12)

    def test_inputs_are_left_as_they_are(self):
        """Every metric of recorded tensors leaves them, and the record, unchanged and gives the same value twice."""
        given, tensors = record(), {name: values.copy() for name, values in MEASURED.items()}
        first, again = compute(given, tensors), compute(given, tensors)

        assert first == again
        assert given == record()
        assert all(np.array_equal(values, tensors[name], equal_nan=True) for name, values in MEASURED.items())

    def test_without_a_language_model(self):
        """What is measured of language models only is absent of all others for that reason, whatever their tier."""
        assert compute(record(), {"target": np.zeros(1)})["ppl_retention"] == Absent("the model is no language model")

    @pytest.mark.parametrize("name", [name for name in EXPECTED if name != "ppl_retention"])
    def test_without_the_tier(self, name):
        """A run without the measurement says which tier it needs, or that the engine does not make it."""
        reason = compute(record(), {"target": np.zeros(1)})[name].reason
        tensor, tier = reason.split(" was not recorded: ")[0], metric(name).tier
        needed = f"it needs eval.tier {tier}"
        never = f"it is of the tier {tier}, and the engine does not measure it"

        assert reason == f"{tensor} was not recorded: {needed if tensor in RECORDED else never}"

    def test_nothing_lost(self):
        """Where no task lost anything there is nothing to bring back."""
        assert compute(record(((0.9, 0.1), (0.9, 0.9))), MEASURED)["few_shot_recovery"] == Absent("nothing was lost")

    def test_only_what_a_formula_reads_must_be_defined(self):
        """Features without any variance after the first task leave metrics of the last one as they are."""
        early = {**MEASURED, "effective_rank": np.array([NAN, 2.5]), "probe_accuracy": np.array([[NAN, NAN], [0.8, 0.9]])}
        values = compute(record(), early)

        assert (values["effective_rank"], values["probe_acc"]) == (2.5, pytest.approx(0.85))
        assert values["representation_forgetting"] == Absent("probe_accuracy is not defined for this run")

    @pytest.mark.parametrize(
        ("tensor", "metric_name", "reason"),
        [
            ("dormant_share", "dormant_share", "no hidden units"),
            ("dead_share", "dead_share", "no hidden units"),
            ("cka", "cka_final", "the features of so many tasks are not kept"),
        ],
    )
    def test_empty(self, tensor, metric_name, reason):
        """Where there is nothing to measure, or nothing was kept of it, that is the reason; a diverged run has its own."""
        empty = {**MEASURED, tensor: np.empty(0 if tensor == "cka" else (2, 0))}
        lost = record(diverged={"task": 1, "step": 2})

        assert compute(record(), empty)[metric_name] == Absent(reason)
        assert "diverged in task 1" in compute(lost, empty)[metric_name].reason

    def test_recorded_before_dead_units_were(self):
        """A record of the tier that knows dormant units only has the reason for dead ones, and keeps its other values."""
        values = compute(record(), {name: value for name, value in MEASURED.items() if name != "dead_share"})

        assert values["dead_share"] == Absent("dead_share was not recorded: the run was trained before it was measured")
        assert values["dormant_share"] == pytest.approx(0.3)

    def test_not_defined(self):
        """A measurement that holds nan is not defined for the run, or was lost when it diverged."""
        lost = {**MEASURED, "cka": np.array([NAN, 1.0])}

        assert compute(record(), lost)["cka_final"] == Absent("cka is not defined for this run")
        assert "diverged in task 1" in compute(record(diverged={"task": 1, "step": 2}), lost)["cka_final"].reason

    def test_every_tier_has_metrics(self):
        """The three tiers hold what their definitions list."""
        counts = {tier: sum(metric(name).tier == tier for name in METRICS) for tier in ("extended", "full")}

        assert counts == {"extended": 21, "full": 4}
