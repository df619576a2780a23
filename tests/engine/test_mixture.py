"""Streams whose tasks mix: fuzzy boundaries, blurry tasks, and one pass over them."""

import itertools

import numpy as np
import pytest
import torch

from contilab import catalog
from contilab.engine.closing import end_of_task
from contilab.engine.environment import EXECUTIONS
from contilab.engine.mixture import Mixture, later_places
from contilab.engine.setup import draws_of, initial_members, initial_memory
from contilab.engine.streams import FUZZY, ORDER, permutation, uniforms
from contilab.spec.sections import Benchmark, Train

KINDS = {"fuzzy": {"fuzzy_steps": 2}, "blurry": {"blurry_share": 0.3}, "both": {"fuzzy_steps": 2, "blurry_share": 0.3}}
METHODS = [name for name in catalog.STRATEGIES if name not in ("icarl", "joint", "cumulative")]
TRAIN = Train(epochs=1, batch=4)

every_kind = pytest.mark.parametrize("kind", KINDS)
every_method = pytest.mark.parametrize("method", METHODS)


def run_of(make, kind, method="naive", seed=0, scenario="class", **sections):
    """Return a run on a stream of *kind*."""
    benchmark = Benchmark(name="gaussians", scenario=scenario, **KINDS[kind])
    return make.run(seed, method, benchmark=benchmark, **{"train": TRAIN, **sections})


def steps_of(setup, limit=64):
    """Return the draw of every step of all stages, with the stage it is of."""
    draws, memory, found = draws_of(setup), initial_memory(setup), []
    for stage in setup.stages:
        step = 0
        while step < stage.schedule.steps:
            chunk = stage.schedule.chunk(step, limit)
            draw = draws.chunk(stage, chunk, memory)
            found += [(stage, draw.current[place], [own[place] for own in draw.seen]) for place in range(chunk.count)]
            step += chunk.count
    return found


@pytest.fixture
def stream(make):
    """Return three tasks of unequal sizes; the last batch of each is smaller."""
    return make.stream((41, 33, 47))


class TestFuzzy:
    """Boundaries around which samples of both tasks come."""

    MIXTURE = Mixture((np.arange(100), np.arange(100, 160), np.arange(160, 240)), np.zeros(240, dtype=np.int64), 1, width=20)

    def test_every_sample_is_learned_once(self):
        """The lines of all stages together are all samples, each stage as long as its task."""
        lines = [self.MIXTURE.line(7, task) for task in range(3)]

        assert [len(line) for line in lines] == [100, 60, 80]
        assert sorted(np.concatenate(lines)) == list(range(240))

    def test_away_from_boundaries_the_order_is_that_of_sharp_ones(self):
        """Beyond the width each stage learns its own samples, in the order in which it always learns them."""
        for task, part in enumerate(self.MIXTURE.parts):
            sharp = part[permutation(7, ORDER, task=task, index=0, count=len(part))]
            first, last = (20 if task else 0), len(part) - (20 if task < 2 else 0)

            assert np.array_equal(self.MIXTURE.line(7, task)[first:last], sharp[first:last])

    def test_a_sample_comes_from_the_later_task_with_the_stated_probability(self):
        """Over 4,000 seeds the share at place i of 2 w is (i + 1/2) / (2 w), within .012 + 4 standard deviations of .0079.

        .012: what Pareto sampling of 10 of 20 is off by at most.
        """
        share = np.mean([later_places(uniforms(seed, FUZZY, task=1, index=0, count=20)) for seed in range(4000)], axis=0)

        assert np.abs(share - (np.arange(20) + 0.5) / 20).max() < 0.012 + 4 * 0.0079

    def test_a_short_task_mixes_by_its_halves(self):
        """A width of 20 around a task of 10 reaches over 5 samples on each side."""
        mixture = Mixture((np.arange(50), np.arange(50, 60), np.arange(60, 99)), np.zeros(99, dtype=np.int64), 1, width=20)
        lines = [mixture.line(1, task) for task in range(3)]

        assert sorted(np.concatenate(lines)) == list(range(99))
        assert set(lines[0][:45]) < set(range(50))
        assert set(lines[2][5:]) < set(range(60, 99))

    def test_members_cross_at_places_of_their_own(self, make, stream):
        """Two seeds learn other samples of the next task early."""
        setup = make.setup([run_of(make, "fuzzy", seed=seed) for seed in range(2)], stream)
        early = [set(setup.mixture.line(seed, 0)) - set(setup.stages[0].samples) for seed in range(2)]

        assert early[0] != early[1]
        assert all(early)


@every_kind
class TestSeen:
    """Which rows are active while a class-incremental stream is learned."""

    @pytest.mark.parametrize("limit", [1, 3, 64])
    def test_rows_are_active_once_a_sample_of_theirs_is_learned(self, make, stream, kind, limit):
        """In each step the mask is exactly the rows of the current samples so far, those of the step included."""
        setup = make.setup([run_of(make, kind, seed=seed) for seed in (3, 4)], stream)
        seen = [set(), set()]
        for _, current, (mask,) in steps_of(setup, limit):
            for member in range(2):
                seen[member] |= set(stream.train_rows[current[member]].tolist())

                assert set(mask[member].nonzero()[:, 0].tolist()) == seen[member]

    def test_in_other_masks_nothing_is_counted(self, make, stream, kind):
        """Domain-incremental, and with all rows active from the start, masks are those of the scenario."""
        every = Benchmark(name="gaussians", scenario="class", class_mask="all", **KINDS[kind])
        for run in (run_of(make, kind, scenario="domain"), make.run(benchmark=every, train=TRAIN)):
            setup = make.setup([run], stream)

            assert all(seen == [] for *_, seen in steps_of(setup))
            assert setup.lesson(setup.stages[0]).masks.all()

    def test_no_loss_meets_a_masked_row(self, make, stream, kind):
        """A sample of a masked row would cost 1e9; no step costs more than 100."""
        for method in ("er", "lwf", "derpp"):
            outcome = make.outcomes([run_of(make, kind, method)], stream=stream)[0]

            assert max(loss for losses in outcome.record.train_loss for loss in losses) < 100


@pytest.mark.parametrize("kind", ["both"])
@every_method
class TestEveryMethod:
    """Every method that learns tasks one after the other, where boundaries are fuzzy and tasks blurry."""

    def test_member_equals_the_seed_alone_bit_by_bit(self, make, stream, kind, method):
        """By the loop, a member of a group ends at the parameters of its seed alone."""
        runs = [run_of(make, kind, method, seed=seed) for seed in (5, 0)]
        together = make.facts(make.outcomes(runs, stream=stream))
        alone = [make.facts(make.outcomes([run], stream=stream))[0] for run in runs]

        assert [(one["parameters"], one["tensors"]) for one in together] == [
            (one["parameters"], one["tensors"]) for one in alone
        ]

    @pytest.mark.parametrize("way", [way for way in EXECUTIONS if way != "loop"])
    def test_every_execution_equals_the_loop(self, make, once, stream, kind, method, way):  # noqa: PLR0917 - fixtures
        """Parameters in float64 agree within 1e-9."""
        runs = [run_of(make, kind, method, seed=seed, train=Train(epochs=1, batch=12)) for seed in range(2)]
        looped = once((kind, method), lambda: make.outcomes(runs, "loop", stream=stream, dtype=torch.float64))
        other = make.outcomes(runs, way, stream=stream, dtype=torch.float64)

        for one, two in zip(looped, other, strict=True):
            assert max(abs(one.parameters[name] - two.parameters[name]).max() for name in one.parameters) < 1e-9

    def test_resumed_is_never_stopped(self, make, looks, stream, kind, method):
        """Stopped near the boundary, in the middle, and in the next task, a run ends at the same bits."""
        runs = [run_of(make, kind, method, seed=seed) for seed in (3, 8)]
        ends = (2, 9, 12, 25) if method != "gdumb" else (2, 5)

        assert make.facts(make.in_pieces(runs, "loop", ends, stream=stream)) == make.facts(make.outcomes(runs, stream=stream))

    def test_no_validation_sample_is_learned_or_kept(self, make, stream, kind, method, drawn_samples):
        """Batches, references and memory hold training samples only, also around boundaries."""
        make.outcomes([run_of(make, kind, method)], stream=stream)

        assert drawn_samples <= set(torch.cat([task.train for task in stream.tasks]).tolist())

    def test_noise_for_what_is_held_out_changes_nothing(self, make, stream, kind, method):
        """With noise in place of validation and test samples, a run ends at the same parameters, bit by bit."""
        inputs = stream.train_inputs.clone()
        inputs[torch.cat([task.validation for task in stream.tasks])] = 100.0
        noise = stream._replace(train_inputs=inputs, test_inputs=torch.full_like(stream.test_inputs, -100.0))
        plain, other = (make.outcomes([run_of(make, kind, method)], stream=data)[0].parameters for data in (stream, noise))

        assert all(np.array_equal(plain[name], other[name]) for name in plain)


class TestOnePass:
    """What each sample is learned for."""

    @every_kind
    def test_every_sample_is_current_once(self, make, stream, kind):
        """In one epoch the current batches of a member hold each training sample once."""
        setup = make.setup([run_of(make, kind, seed=seed) for seed in range(2)], stream)
        steps = steps_of(setup)

        for member in range(2):
            learned = list(itertools.chain(*(current[member].tolist() for _, current, _ in steps)))
            assert sorted(learned) == sorted(torch.cat([task.train for task in stream.tasks]).tolist())

    def test_joint_training_has_nothing_to_mix(self, make, stream):
        """All tasks are one stage there, and its numbers are those of the plain stream."""
        plain = make.run(method="joint", train=TRAIN)
        one, two = (make.outcomes([run], stream=stream)[0].parameters for run in (plain, run_of(make, "fuzzy", "joint")))

        assert all(np.array_equal(one[name], two[name]) for name in one)


class TestNotes:
    """What the record says."""

    @pytest.mark.parametrize(
        ("method", "notes"),
        [
            ("naive", {}),
            ("er", {}),
            ("derpp", {}),
            ("ewc", {"acts_at": "nominal boundaries", "second_look": "importances"}),
            ("si", {"acts_at": "nominal boundaries"}),
            ("gem", {"acts_at": "nominal boundaries"}),
        ],
    )
    def test_what_happens_at_boundaries_that_are_not_there(self, make, stream, method, notes):
        """Methods that act at the end of tasks do so at the nominal one, and those that look at samples again say so."""
        record = make.outcomes([run_of(make, "fuzzy", method)], stream=stream)[0].record

        assert {key: value for key, value in record.notes.items() if key in ("acts_at", "second_look")} == notes

    def test_weights_by_the_number_of_tasks(self, make, stream):
        """Replay that weighs by the number of tasks counts nominal ones: the weights change at the boundary, and it says so."""
        run = run_of(make, "fuzzy", "er", settings={"weighting": "tasks"})
        setup = make.setup([run], stream)
        (member,) = initial_members(setup)
        counts = [float(member.strategy.tasks)]
        for stage in setup.stages:
            member = end_of_task(setup, stage, run, member)
            counts.append(float(member.strategy.tasks))

        assert counts == [1, 2, 3, 4]
        assert make.outcomes([run], stream=stream)[0].record.notes["acts_at"] == "nominal boundaries"

    def test_of_plain_streams_there_are_none(self, make, stream):
        """Nothing is noted of sharp boundaries."""
        record = make.outcomes([make.run(method="ewc")], stream=stream)[0].record

        assert not {"acts_at", "second_look"} & set(record.notes)
