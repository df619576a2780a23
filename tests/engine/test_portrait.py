"""The features of a member with `eval.tier = "extended"`: what is measured of them, and that training stays as it is."""

import dataclasses

import numpy as np
import pytest
import torch
from safetensors.torch import load
from torch import nn

from contilab.engine.evaluate import not_at_all
from contilab.engine.recording import portrait as subject
from contilab.engine.recording import representation
from contilab.engine.recording.activity import features_and_activity
from contilab.engine.recording.features import MOST, samples_of
from contilab.engine.recording.subset import subset
from contilab.engine.setup import initial_members
from contilab.errors import CheckpointMismatch, Stopped
from contilab.metrics.compute import compute
from contilab.metrics.contract import Absent
from contilab.metrics.representation import linear_cka
from contilab.models.convnet import Settings as NetSettings
from contilab.models.convnet import convnet
from contilab.models.module import from_module
from contilab.models.resnet18r import Settings as ResnetSettings
from contilab.models.resnet18r import resnet18r
from contilab.spec.sections import Benchmark, Eval, Train

TENSORS = ("probe_accuracy", "cka", "effective_rank", "dormant_share", "dead_share", "drift", "drift_relative")
METRICS = (
    *("probe_acc", "representation_forgetting", "cka_final", "effective_rank"),
    *("dormant_share", "dead_share", "drift", "drift_relative"),
)
WIDE = ("convnet", {"channels": [4, 32], "groups": 2})  # 128 features on images of 8 x 8


def extended(run):
    """Return *run* with its features measured."""
    return dataclasses.replace(run, eval=Eval(tier="extended"))


def values(outcome):
    """Return the metrics of what *outcome* recorded."""
    return compute(outcome.record, outcome.tensors)


def initial(setup, run):
    """Return the parameters that *run* begins with."""
    return initial_members(setup)[setup.runs.index(run)].params


class TestSamples:
    """Which samples are looked at."""

    def test_are_the_tasks_own(self, make):
        """Each part has samples of its task, none twice; training samples are no validation samples."""
        stream = make.stream()
        samples = samples_of(stream, "d")

        for task, (learned, tested) in enumerate(zip(samples.learned, samples.tested, strict=True)):
            own = stream.tasks[task]
            assert set(learned.tolist()) == set(own.train.tolist()) - set(own.validation.tolist())
            assert set(tested.tolist()) == set(own.test.tolist())
        assert sorted(samples.mixed.tolist()) == list(range(60))

    def test_are_a_thousand_at_most(self, make):
        """Of 1,500 training samples 1,000 are chosen, and of all test samples together as many."""
        stream = make.stream(sizes=(1500, 1100), test=1200)
        samples = samples_of(stream, "d")

        assert [len(part) for part in (*samples.learned, *samples.tested, samples.mixed)] == [MOST] * 5
        assert samples.passes == 5 * MOST

    def test_mixed_ones_are_evenly_spaced_and_stand_where_they_are_told(self, make):
        """Half are of each of two tasks, in whatever order these have their samples, and stand at their places in exams."""
        stream = make.stream(sizes=(5, 5), test=1200)
        stream = stream._replace(tasks=[task._replace(test=task.test.flip(0)) for task in stream.tasks])
        samples = samples_of(stream, "d")

        assert torch.equal(samples.mixed, torch.cat(subset(stream, MOST // 2)))
        assert torch.equal(samples.mixed, torch.cat([task.test for task in stream.tasks])[torch.cat(samples.places)])

    def test_training_samples_are_chosen_by_hash(self, make):
        """Which are chosen depends on the data only, and both classes are among them although they alternate in the pool."""
        stream = make.stream(sizes=(2000,))
        stream = stream._replace(train_rows=torch.arange(len(stream.train_rows)) % 2)
        first, again, other = (samples_of(stream, digest).learned[0] for digest in ("d", "d", "e"))

        assert torch.equal(first, again)
        assert not torch.equal(first, other)
        assert 0.4 < float(stream.train_rows[first].float().mean()) < 0.6

    def test_of_a_blurry_stream_are_of_the_nominal_tasks(self, make):
        """Where tasks give samples to others, probes of a task still see its own ones."""
        run = make.run(benchmark=Benchmark(name="gaussians", scenario="class", blurry_share=0.25))
        setup = make.setup([run])
        owner = setup.stream.train_tasks
        given = [set(owner[task.train].tolist()) for task in setup.stream.tasks]

        assert any(len(owners) > 1 for owners in given)
        assert [set(owner[part].tolist()) for part in samples_of(setup.stream, "d").learned] == [{0}, {1}, {2}]


class TestActivity:
    """Hidden units of a model."""

    def test_of_a_perceptron(self, make):
        """Both hidden layers, whose last is the features; activities are means over samples."""
        setup = make.setup([make.run(3)])
        model, params, x = setup.learner.model, initial(setup, setup.runs[0]), setup.stream.test_inputs
        features, layers = features_and_activity(lambda part: model.forward(params, {}, part), x, torch.arange(60), not_at_all)

        assert [len(layer) for layer in layers] == [16, 16]
        assert np.allclose(layers[1], np.abs(features).mean(0), atol=1e-6)
        assert features.tobytes() == model.forward(params, {}, x).features.numpy().tobytes()

    @pytest.mark.parametrize(
        ("make_model", "settings", "units"),
        [
            (convnet, NetSettings(channels=(4, 8), groups=2), [4, 8]),
            (resnet18r, ResnetSettings(), [20] * 5 + [40] * 4 + [80] * 4 + [160] * 4),
        ],
    )
    def test_of_images_are_channels(self, make_model, settings, units):
        """Each activation of a net is a layer, in order: of a residual block the inner one and the sum."""
        model = make_model(settings, (3, 8, 8), 4)
        params = {name: torch.full(item.shape, 0.01) for name, item in model.table.items()}
        x = torch.ones(5, 3, 8, 8)
        _, layers = features_and_activity(lambda part: model.forward(params, {}, part), x, torch.arange(5), not_at_all)

        assert [len(layer) for layer in layers] == units

    def test_of_images_is_the_mean_over_positions(self):
        """A channel that is active at one of four positions has a quarter of its value, of negative ones the size."""
        module = nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Tanh(), nn.Flatten(), nn.Linear(4, 2))
        model = from_module(module, (4,), 2)
        params = {name: torch.zeros(item.shape) for name, item in model.table.items()}
        x = torch.tensor([[0.5, 0, 0, 0], [-0.5, 0, 0, 0]])
        _, [layer] = features_and_activity(lambda part: model.forward(params, {}, part), x, torch.arange(2), not_at_all)

        assert layer == pytest.approx([np.tanh(0.5) / 4], abs=1e-7)

    @pytest.mark.parametrize("activation", [nn.ReLU(), nn.ReLU(inplace=True), nn.GELU(), nn.SiLU(), nn.ReLU6(), nn.LeakyReLU()])
    def test_of_a_module_is_seen_once(self, activation):
        """Whatever torch's activation, it is one layer of 7 units."""
        model = from_module(nn.Sequential(nn.Linear(4, 7), activation, nn.Linear(7, 2)), (4,), 2)
        params = {name: torch.ones(item.shape) for name, item in model.table.items()}
        x = torch.ones(3, 4)
        _, layers = features_and_activity(lambda part: model.forward(params, {}, part), x, torch.arange(3), not_at_all)

        assert [len(layer) for layer in layers] == [7]

    def test_batches_do_not_show(self, make, monkeypatch):
        """In passes of 7 samples activities are those of one pass."""
        setup = make.setup([make.run(3)])
        params = initial(setup, setup.runs[0])

        def layers():
            def forward(x):
                return setup.learner.model.forward(params, {}, x)

            return features_and_activity(forward, setup.stream.test_inputs, torch.arange(60), not_at_all)[1]

        whole = layers()
        monkeypatch.setattr("contilab.engine.recording.activity.BATCH", 7)

        assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(layers(), whole, strict=True))


class TestPortrait:
    """What is measured of a member."""

    def test_shapes(self, make):
        """Three tasks, two hidden layers."""
        [outcome] = make.outcomes([extended(make.run(3, "er"))])
        shapes = {name: outcome.tensors[name].shape for name in TENSORS}

        assert shapes == {
            "probe_accuracy": (3, 3),
            "cka": (3,),
            "effective_rank": (3,),
            "dormant_share": (3, 2),
            "dead_share": (3, 2),
            "drift": (3,),
            "drift_relative": (3,),
        }
        assert all(np.isfinite(outcome.tensors[name]).all() for name in TENSORS)

    def test_metrics_read_it(self, make):
        """All metrics of features have a value."""
        [outcome] = make.outcomes([extended(make.run(3, "er"))])
        found = values(outcome)

        assert all(isinstance(found[name], float) for name in METRICS)
        assert 0 < found["cka_final"] <= 1
        assert 1 <= found["effective_rank"] <= 16

    def test_without_the_tier_nothing_is_measured(self, make):
        """A run of the core tier has none of it, and metrics name the tier."""
        [outcome] = make.outcomes([make.run()])

        assert not set(TENSORS) & outcome.tensors.keys()
        assert values(outcome)["probe_acc"] == Absent("probe_accuracy was not recorded: it needs eval.tier extended")

    def test_drift_is_the_way_of_the_parameters(self, make):
        """Each is the distance to the parameters of the task before, first the initial ones, and its share of their norm."""
        run = extended(make.run(3))
        kept = [load(snapshot.files[f"{run.rid}.safetensors"]) for snapshot in make.shelf_of([run]).kept]
        [outcome] = make.outcomes([run])
        begin = initial(make.setup([run]), run)
        learned = [{name: tensors[f".params['{name}']"] for name in begin} for tensors in kept[:2]]
        final = {name: torch.from_numpy(outcome.parameters[name]) for name in begin}
        ways = [np.concatenate([value.numpy().ravel() for value in params.values()]) for params in (begin, *learned, final)]
        before = np.array(ways[:-1], dtype=float)
        distances = np.linalg.norm(np.array(ways[1:], dtype=float) - before, axis=1)

        assert distances.min() > 0.01
        assert outcome.tensors["drift"] == pytest.approx(distances, rel=1e-12)
        assert outcome.tensors["drift_relative"] == pytest.approx(distances / np.linalg.norm(before, axis=1), rel=1e-12)

    def test_a_member_that_learns_nothing(self, make):
        """With a rate of almost nothing features stay as they are: similarity 1, equal rows of probes, ranks and units."""
        [outcome] = make.outcomes([extended(make.run(3, optim=("sgd", {"lr": 1e-12})))])
        tensors = outcome.tensors

        assert tensors["cka"] == pytest.approx([1, 1, 1], abs=1e-9)
        assert (tensors["probe_accuracy"] == tensors["probe_accuracy"][0]).all()
        assert (tensors["dormant_share"] == tensors["dormant_share"][0]).all()
        assert tensors["drift"] == pytest.approx([0, 0, 0], abs=1e-6)

    def test_probes_read_separable_features(self, make):
        """On tasks far apart, probes of the features are right where the head of the last task alone is not."""
        [outcome] = make.outcomes([extended(make.run(3, train=Train(epochs=4, batch=8)))])

        assert outcome.tensors["probe_accuracy"].min() > 0.9
        assert outcome.record.accuracy[2][0] < 0.5

    def test_more_features_than_samples(self, make):
        """What is kept of them is no wider than there are samples, and as similar to everything."""
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(20, 128)).astype(np.float32), rng.normal(size=(20, 9))
        kept = subject._narrow(x)
        [outcome] = make.outcomes([extended(make.run(3, model=WIDE))], stream=make.stream(shape=(3, 8, 8)))

        assert kept.shape == (20, 20)
        assert linear_cka(kept, y) == pytest.approx(linear_cka(x, y), rel=1e-6)
        assert np.isfinite(outcome.tensors["cka"]).all()

    @pytest.mark.parametrize("method", ["icarl", "gdumb", "cumulative", "ewc"])
    def test_methods_of_each_kind(self, make, method):
        """Nearest means, fresh models, and whole data have features like any other."""
        [outcome] = make.outcomes([extended(make.run(3, method))])

        assert all(isinstance(values(outcome)[name], float) for name in METRICS)

    @pytest.mark.parametrize("scenario", ["task", "domain"])
    def test_scenarios(self, make, scenario):
        """Probes do not see masks."""
        [outcome] = make.outcomes([extended(make.run(3, scenario=scenario))])

        assert all(isinstance(values(outcome)[name], float) for name in METRICS)

    def test_joint(self, make):
        """One stage: probes, rank and units are there, what compares stages is not."""
        [outcome] = make.outcomes([extended(make.run(3, "joint"))])
        found, absent = values(outcome), Absent("joint has one training stage")

        assert outcome.tensors["probe_accuracy"].shape == (1, 3)
        assert all(isinstance(found[name], float) for name in ("probe_acc", "effective_rank", "dormant_share"))
        assert {found[name] for name in ("representation_forgetting", "cka_final", "drift")} == {absent}

    def test_no_hidden_layers(self, make):
        """A linear model has its inputs as features, which never change, and no units."""
        run = extended(make.run(3, model=("mlp", {"hidden": []})))
        [outcome] = make.outcomes([run])

        assert values(outcome)["dormant_share"] == values(outcome)["dead_share"] == Absent("no hidden units")
        assert outcome.tensors["cka"] == pytest.approx([1, 1, 1], abs=1e-12)
        assert isinstance(values(outcome)["probe_acc"], float)

    def test_features_that_are_too_many_are_not_kept(self, make, monkeypatch):
        """Beyond the bound there is no similarity, and everything else."""
        monkeypatch.setattr(representation, "MOST_BYTES", 100)
        [outcome] = make.outcomes([extended(make.run(3))])

        assert values(outcome)["cka_final"] == Absent("the features of so many tasks are not kept")
        assert isinstance(values(outcome)["probe_acc"], float)

    def test_dead_features(self, make):
        """Features that are constant have no probe, no rank and no similarity; all their units are dormant."""
        setup = make.setup([extended(make.run(3))])
        member = initial_members(setup)[0]
        dead = member._replace(params={name: torch.zeros_like(value) for name, value in member.params.items()})
        [found] = subject.portraits_after(setup, setup.stages[0], [dead], [representation.Representation()], not_at_all)

        assert np.isnan([*found.probe, found.rank]).all()
        assert found.dormant == found.dead == [1.0, 1.0]

    def test_dead_units_are_told_from_dormant_ones(self, make):
        """Of 16 units four that are never active are dead; a fifth that hardly is makes five dormant ones."""
        setup = make.setup([extended(make.run(3))])
        member = initial_members(setup)[0]
        bias = torch.tensor([0.0] * 4 + [0.001] + [1.0] * 11)
        params = {**member.params, "hidden0.weight": torch.zeros_like(member.params["hidden0.weight"]), "hidden0.bias": bias}
        members = [member._replace(params=params)]
        [found] = subject.portraits_after(setup, setup.stages[0], members, [representation.Representation()], not_at_all)

        assert (found.dead[0], found.dormant[0]) == (4 / 16, 5 / 16)

    def test_a_diverged_member(self, make):
        """Rows after the divergence are not there, metrics say why, and its mate has all of them."""
        runs = [extended(make.run(seed, optim=("sgd", {"lr": lr}))) for seed, lr in ((0, 0.05), (1, 1e30))]
        mate, lost = make.outcomes(runs)

        assert all(isinstance(values(mate)[name], float) for name in METRICS)
        assert all(values(lost)[name].reason.startswith("the run diverged in task 0") for name in METRICS)

    def test_passes_are_counted(self, make):
        """After each of three tasks: 120 training samples, 60 test samples, and 60 mixed ones."""
        run = make.run()
        setup = make.setup([extended(run)])
        member = initial_members(setup)[0]
        [found] = subject.portraits_after(setup, setup.stages[0], [member], [representation.Representation()], not_at_all)

        assert found.passes == 120 + 60 + 60


class TestTraining:
    """Measuring changes nothing of what it measures; that weights and answers have the same bits is a test of the stream."""

    def test_nothing_is_drawn(self, make, drawn):
        """All that chance decides in all steps is what it decides in the core tier."""
        make.outcomes([make.run(3, "er")])
        plain = [line[2] for line in drawn]
        drawn.clear()
        make.outcomes([extended(make.run(3, "er"))])

        assert [line[2] for line in drawn] == plain

    def test_a_member_has_the_numbers_of_the_same_seed_alone(self, make):
        """Under the loop, all of it has the same bits in a group of three."""
        runs = [extended(make.run(seed, "er")) for seed in (1, 2, 3)]
        [alone], together = make.outcomes(runs[1:2]), make.outcomes(runs)[1]

        assert {name: alone.tensors[name].tobytes() for name in TENSORS} == {
            name: together.tensors[name].tobytes() for name in TENSORS
        }


class TestResume:
    """A run that is stopped ends with the same record; `test_recording` stops every method."""

    def test_more_features_than_samples(self, make, looks):
        """Stopped within tasks, all tensors have the bits of one go where a narrower form of the features is kept, too."""
        runs, stream = [extended(make.run(3, model=WIDE))], make.stream(shape=(3, 8, 8))

        assert make.facts(make.in_pieces(runs, "loop", [7, 13], stream=stream)) == make.facts(
            make.outcomes(runs, stream=stream)
        )

    def test_stopped_while_features_are_measured(self, make, looks, monkeypatch):
        """Nothing is noted of a stage in which it is stopped, and who goes on measures it anew."""
        runs, asked, shelf = [extended(make.run(seed)) for seed in (3, 8)], [], make.Shelf()
        measure = subject.features_of

        def noting(*arguments):
            asked.append(1)
            return measure(*arguments)

        monkeypatch.setattr(subject, "features_of", noting)
        with pytest.raises(Stopped):
            make.outcomes(runs, watch=shelf.watch._replace(stop=lambda: len(asked) == 9))  # of the second member
        monkeypatch.setattr(subject, "features_of", measure)

        assert shelf.steps == [6]
        assert make.facts(make.outcomes(runs, resume=shelf.files(6))) == make.facts(make.outcomes(runs))

    def test_a_snapshot_without_features_is_refused(self, make):
        """A snapshot that was made before features were measured does not go on as if they had been."""
        run = make.run()
        shelf = make.shelf_of([run])
        setup = make.setup([run])
        later = setup._replace(runs=(extended(run),))
        files = {name.replace(run.rid, later.runs[0].rid): data for name, data in shelf.files(6).items()}

        with pytest.raises(CheckpointMismatch):
            make.outcomes(list(later.runs), resume=files)
