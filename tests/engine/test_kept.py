"""Features, and the trajectory of parameters, that a result keeps for metrics that nobody thought of while it was trained."""

import dataclasses

import numpy as np
import pytest
import torch
from safetensors.torch import load

from contilab.engine.recording import kept as subject
from contilab.engine.recording import landscape
from contilab.engine.setup import initial_members
from contilab.metrics.compute import evidence_of
from contilab.metrics.contract import Missing
from contilab.metrics.kept import OF_FEATURES, kept
from contilab.metrics.representation import dormant_share, effective_rank
from contilab.spec.sections import Eval

EVERYTHING = Eval(tier="full", keep_features=True, keep_trajectory=True)


def keeping(run, **changed):
    """Return *run* with everything kept, but for what is *changed*."""
    return dataclasses.replace(run, eval=dataclasses.replace(EVERYTHING, **changed))


def trajectory(outcome):
    """Return the parameters after each stage as lines of numbers, [S, P]."""
    found = [value.reshape(len(value), -1) for name, value in outcome.kept.items() if name.startswith("trajectory.")]
    return np.concatenate(found, axis=1, dtype=np.float64)


class TestFeatures:
    """What is kept of features."""

    def test_they_are_those_of_the_model(self, make):
        """At the end, the features of each sample are what the final parameters make of it; rows and tasks are its own."""
        [outcome] = make.outcomes([keeping(make.run(3, "er"))])
        setup, found = make.setup([make.run(3, "er")]), outcome.kept
        stream = setup.stream
        exam = torch.cat([task.test for task in stream.tasks])[torch.from_numpy(found["places_tested"])]
        params = {name: torch.from_numpy(value) for name, value in outcome.parameters.items()}
        features = setup.learner.model.forward(params, {}, stream.test_inputs[exam]).features

        assert found["features_tested"].shape == (3, 60, 16)
        assert found["features_learned"].shape == (3, 120, 16)
        assert np.allclose(found["features_tested"][-1], features.numpy(), atol=1e-6)
        assert (found["rows_tested"] == outcome.tensors["target"][found["places_tested"]]).all()
        assert (found["rows_tested"] // 2 == found["tasks_tested"]).all()
        assert (found["rows_learned"] // 2 == found["tasks_learned"]).all()

    def test_metrics_of_them_are_those_that_were_measured(self, make):
        """Rank and dormant units that are worked out later are, in all bits, those that the run measured."""
        [outcome] = make.outcomes([keeping(make.run(3))])
        found = outcome.kept
        layers = [found["activity"][:, found["activity_layer"] == layer] for layer in (0, 1)]

        assert [effective_rank(stage) for stage in found["features_tested"]] == outcome.tensors["effective_rank"].tolist()
        assert [[dormant_share(layer[stage]) for layer in layers] for stage in range(3)] == outcome.tensors[
            "dormant_share"
        ].tolist()

    def test_samples_are_as_many_as_are_told(self, make, monkeypatch):
        """Of more samples than are kept, every so many of each task: those of ranks, and of probes."""
        monkeypatch.setattr("contilab.engine.recording.features.MOST", 12)
        [outcome] = make.outcomes([keeping(make.run())])

        assert outcome.kept["tasks_learned"].tolist() == outcome.kept["tasks_tested"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
        assert outcome.kept["places_tested"].tolist() == [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55]
        assert outcome.kept["features_learned"].shape == outcome.kept["features_tested"].shape == (3, 12, 16)

    def test_a_model_without_hidden_units(self, make):
        """There is no activity, and everything else."""
        [outcome] = make.outcomes([keeping(make.run(model=("mlp", {"hidden": []})))])
        evidence = evidence_of(outcome.record, outcome.tensors, kept=outcome.kept)

        assert kept(evidence, "activity").shape == (3, 0)
        assert kept(evidence, "activity_layer").shape == (0,)
        assert kept(evidence, "features_tested").shape == (3, 60, 12)


class TestTrajectory:
    """The parameters, what they are after each task."""

    def test_it_is_the_way_of_the_parameters(self, make):
        """The last are the final ones in all bits, those before are what snapshots hold, and their distances are the drift."""
        run = keeping(make.run(3, "ewc"))
        shelf = make.shelf_of([run])
        [outcome] = make.outcomes([run])
        begin = initial_members(make.setup([run]))[0].params
        early = load(shelf.files(6)[f"{run.rid}.safetensors"])
        names = [name.removeprefix("trajectory.") for name in outcome.kept if name.startswith("trajectory.")]
        ways = np.concatenate([np.concatenate([begin[name].numpy().ravel() for name in names])[None], trajectory(outcome)])

        for name, value in outcome.parameters.items():
            assert outcome.kept[f"trajectory.{name}"].shape == (3, *value.shape)
            assert outcome.kept[f"trajectory.{name}"][-1].tobytes() == value.tobytes()
            assert outcome.kept[f"trajectory.{name}"][0].tobytes() == early[f".params['{name}']"].numpy().tobytes()
        assert outcome.tensors["drift"] == pytest.approx(np.linalg.norm(np.diff(ways, axis=0), axis=1), rel=1e-6)

    def test_joint_has_one_stage(self, make):
        """Its only parameters are the final ones, its features those of the end."""
        [outcome] = make.outcomes([keeping(make.run(3, "joint"))])

        assert trajectory(outcome).shape[0] == outcome.kept["features_tested"].shape[0] == 1


class TestRun:
    """What keeping does to a run."""

    @pytest.mark.parametrize(
        ("changed", "begins"), [({"keep_trajectory": False}, "trajectory."), ({"keep_features": False}, "features")]
    )
    def test_only_what_is_asked_for(self, make, changed, begins):
        """Each of the two settings keeps its own part."""
        [outcome] = make.outcomes([keeping(make.run(), **changed)])

        assert outcome.kept
        assert not [name for name in outcome.kept if name.startswith(begins)]

    def test_all_else_stays(self, make):
        """Without the settings nothing is kept; with them, weights, record, tensors and counts have the same bits."""
        [plain] = make.facts(make.outcomes([keeping(make.run(3, "er"), keep_features=False, keep_trajectory=False)]))
        [found] = make.facts(make.outcomes([keeping(make.run(3, "er"))]))

        assert plain["kept"] == {}
        assert {**found, "rid": "", "kept": {}} == {**plain, "rid": ""}

    def test_stopped_and_resumed(self, make, looks):
        """Stopped within two tasks, everything that is kept has the bits of one go; so has a member alone."""
        runs = [keeping(make.run(seed, "er")) for seed in (3, 8)]
        whole = make.facts(make.outcomes(runs))

        assert make.facts(make.in_pieces(runs, "loop", [7, 13])) == whole
        assert make.facts(make.outcomes(runs[1:]))[0]["kept"] == whole[1]["kept"]

    def test_too_much_is_not_kept(self, make, monkeypatch):
        """Beyond the bounds there is no stage of it and no layer, metrics say why, and everything else is measured."""
        monkeypatch.setattr(subject, "MOST_BYTES", 100)
        monkeypatch.setattr(landscape, "MOST_BYTES", 100)
        [outcome] = make.outcomes([keeping(make.run())])
        evidence = evidence_of(outcome.record, outcome.tensors, kept=outcome.kept)

        for name in ("features_tested", "features_learned", "activity", "activity_layer", "trajectory.head.weight"):
            with pytest.raises(Missing, match=f"{name} is not kept of so many tasks, or of so large a model"):
                kept(evidence, name)
        assert np.isfinite(outcome.tensors["effective_rank"]).all()

    def test_a_diverged_member(self, make):
        """Of a run that diverged in its first task no stage is kept, and metrics say when it diverged."""
        run = keeping(make.run(0, optim=("sgd", {"lr": 1e30})))
        [outcome] = make.outcomes([run])
        evidence = evidence_of(outcome.record, outcome.tensors, kept=outcome.kept)

        assert len(outcome.kept["features_tested"]) == len(outcome.kept["trajectory.head.weight"]) == 0
        assert outcome.kept["activity"].dtype == np.float64
        for name in (*OF_FEATURES, "trajectory.head.weight"):
            with pytest.raises(Missing, match="the run diverged in task 0"):
                kept(evidence, name)


class TestReasons:
    """Why there is nothing to read."""

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("features_tested", "features_tested was not kept: it needs eval.keep_features = true"),
            ("trajectory.head.weight", "trajectory.head.weight was not kept: it needs eval.keep_trajectory = true"),
            ("feature", "nothing that a run keeps has the name feature"),
        ],
    )
    def test_a_run_that_kept_nothing(self, make, name, reason):
        """The setting is named, and names that mean nothing are told from it."""
        [outcome] = make.outcomes([make.run()])

        with pytest.raises(Missing, match=f"^{reason}$"):
            kept(evidence_of(outcome.record, outcome.tensors), name)

    def test_a_parameter_of_another_model(self, make):
        """Parameters that the model does not have are named."""
        [outcome] = make.outcomes([keeping(make.run())])

        with pytest.raises(Missing, match=r"^the model has no parameter head\.scale$"):
            kept(evidence_of(outcome.record, outcome.tensors, kept=outcome.kept), "trajectory.head.scale")
