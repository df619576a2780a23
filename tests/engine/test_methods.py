"""Methods in whole runs: streams of any shape, settings that make two methods one, and what memory gives them."""

import numpy as np
import pytest
import torch
from safetensors.torch import load

from contilab import catalog
from contilab.engine.setup import draws_of, initial_memory
from contilab.records.outcome import files_of
from contilab.spec.fields import values_per_member
from contilab.spec.sections import Memory, Train
from contilab.strategies.contract import Batch, Member

CAPPED = {"stiffness_cap": 1.0}
SPRINGS = {
    "ewc": ("ewc", CAPPED),
    "ewc_separate": ("ewc", {**CAPPED, "variant": "separate"}),
    "mas": ("mas", CAPPED),
    "si": ("si", CAPPED),
}
HUGE = {  # beyond any learning rate, with nothing that holds it back
    **{name: (method, {**settings, "strength": 1e9, "stiffness_cap": "off"}) for name, (method, settings) in SPRINGS.items()},
    "lwf": ("lwf", {"alpha": 1e9}),
}
SIZES = {"one task": (33,), "twenty tasks": (9,) * 20, "unequal tasks, one sample in the last batch": (33, 17, 8)}

every_method = pytest.mark.parametrize("method", catalog.STRATEGIES)
every_spring = pytest.mark.parametrize(("method", "settings"), SPRINGS.values(), ids=SPRINGS)


def memory_of(method, total):
    """Return a memory of *total* entries with the method's own policy."""
    own = {key: values[0] for key, values in catalog.entry("method", method).memory.items()}
    return Memory(total=total, batch=8, **own)


def strategy_of(method):
    """Return *method* with its default settings."""
    entry = catalog.entry("method", method)
    return entry.make(entry.settings())


def distance(one, other):
    """Return the distance between the parameters of two outcomes, or of anything with those."""
    return float(np.sqrt(sum(((value - other[name]) ** 2).sum() for name, value in one.items())))


def varied(method):
    """Return the per-member settings of *method*: as they are, and halved, "off" being replaced by 0.5."""
    values = values_per_member(catalog.entry("method", method).settings())
    return [values, {key: 0.5 if value == "off" else value / 2 for key, value in values.items()}]


@every_method
class TestStreams:
    """Every method on streams of any shape."""

    @pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
    def test_ends_with_finite_numbers(self, make, method, sizes):
        """It ends with a row per stage, and no loss is above 1e6: a masked logit in a squared error would cost 1e18."""
        run = make.run(method=method, optim=("sgd", {"lr": 0.02}))
        [outcome] = make.outcomes([run], stream=make.stream(sizes))
        losses = [loss for stage in outcome.record.train_loss for loss in stage]

        assert outcome.record.state == "finished"
        assert len(outcome.record.accuracy) == (1 if method == "joint" else len(sizes))
        assert np.isfinite(losses).all()
        assert max(losses, default=0.0) < 1e6


@pytest.mark.parametrize("method", [name for name in catalog.STRATEGIES if catalog.entry("method", name).uses_memory])
class TestMemory:
    """Every method with a memory."""

    @pytest.mark.parametrize("total", [0, 3])
    def test_may_be_smaller_than_a_batch(self, make, method, total):
        """Without entries, or with 3 for batches of 8, it ends with finite numbers and holds no more than it may."""
        [outcome] = make.outcomes([make.run(method=method, memory=memory_of(method, total))])

        assert outcome.record.state == "finished"
        assert outcome.record.cost.buffer_bytes <= total * (8 + 4 * 6)


class TestSettings:
    """Settings under which a method is another one, and settings of members."""

    @pytest.mark.parametrize("method", ["agem", "der", "derpp", "er", "gem"])
    def test_no_memory_is_naive(self, make, method):
        """Replay from, and reference to, a memory of 0 is naive training bit by bit."""
        [empty] = make.outcomes([make.run(method=method, memory=memory_of(method, 0))])
        [naive] = make.outcomes([make.run()])

        assert distance(empty.parameters, naive.parameters) == 0

    def test_less_than_an_entry_per_task_is_naive(self, make):
        """A ring of 2 slots for 3 tasks has room for no task, so gem has nothing to heed."""
        [small] = make.outcomes([make.run(method="gem", memory=memory_of("gem", 2))])
        [naive] = make.outcomes([make.run()])

        assert distance(small.parameters, naive.parameters) == 0

    @pytest.mark.parametrize("scenario", ["task", "class", "domain"])
    @pytest.mark.parametrize(
        ("method", "settings"),
        [
            ("ewc", {"strength": 0.0}),
            ("ewc", {"strength": 0.0, "variant": "separate"}),
            ("lwf", {"alpha": 0.0}),
            ("mas", {"strength": 0.0}),
            ("si", {"strength": 0.0}),
        ],
    )
    def test_no_strength_is_naive(self, make, method, settings, scenario):
        """A penalty of strength 0, or a teacher of weight 0, is naive training bit by bit."""
        [free] = make.outcomes([make.run(method=method, settings=settings, scenario=scenario)])
        [naive] = make.outcomes([make.run(scenario=scenario)])

        assert distance(free.parameters, naive.parameters) == 0

    @pytest.mark.parametrize(
        ("method", "settings", "other", "its"),
        [
            ("der", {"alpha": 0.0}, "naive", {}),
            ("derpp", {"alpha": 0.0, "beta": 0.0}, "naive", {}),
            ("derpp", {"alpha": 0.2, "beta": 0.0}, "der", {"alpha": 0.2}),
        ],
    )
    def test_no_weight_of_replay_leaves_the_rest(self, make, method, settings, other, its):
        """Der without logits is naive, derpp without labels is der: but for the rounding of longer batches."""
        [free] = make.outcomes([make.run(method=method, settings=settings)], dtype=torch.float64)
        [plain] = make.outcomes([make.run(method=other, settings=its)], dtype=torch.float64)

        assert distance(free.parameters, plain.parameters) < 1e-12

    def test_derpp_of_labels_alone_is_er_of_twice_the_rate(self):
        """With alpha 0 and beta 1 it has twice the loss of er where as many samples are replayed as are current."""
        generator = torch.Generator().manual_seed(0)
        logits, rows = torch.randn(2, 6, 4, generator=generator), torch.randint(0, 4, (2, 6), generator=generator)
        every, one = torch.ones(6, 4, dtype=torch.bool), torch.ones(6)
        current, replay = (Batch(*own, every, one, own[0]) for own in zip(logits, rows, strict=True))
        batches = {"current": current, "replay": replay, "labels": replay}
        losses = [
            strategy.loss(strategy.init({"w": logits}, Member(values, 0.1)), batches)
            for strategy, values in ((strategy_of("derpp"), {"alpha": 0.0, "beta": 1.0}), (strategy_of("er"), {}))
        ]

        assert float(losses[0]) == pytest.approx(2 * float(losses[1]))

    @pytest.mark.parametrize("method", [name for name in catalog.STRATEGIES if varied(name)[0]])
    def test_members_with_settings_of_their_own_equal_runs_with_those(self, make, method):
        """Two members that differ in every per-member setting are bitwise the two runs, and differ from each other."""
        runs = [make.run(4, method, settings=settings) for settings in varied(method)]
        together = make.outcomes(runs)
        alone = [make.outcomes([run])[0] for run in runs]

        assert make.facts(alone)[0]["parameters"] == make.facts(together)[0]["parameters"]
        assert make.facts(alone)[1]["parameters"] == make.facts(together)[1]["parameters"]
        assert distance(together[0].parameters, together[1].parameters) > 0

    @pytest.mark.parametrize("method", [name for name in catalog.STRATEGIES if varied(name)[0]])
    def test_members_with_settings_of_their_own_may_be_vmapped(self, make, method):
        """Under vmap they end where the loop does, within 1e-9 in float64."""
        runs = [make.run(4, method, settings=settings) for settings in varied(method)]
        looped, mapped = (make.outcomes(runs, way, dtype=torch.float64) for way in ("loop", "vmap"))

        assert max(distance(a.parameters, b.parameters) for a, b in zip(looped, mapped, strict=True)) < 1e-9


@every_spring
class TestSprings:
    """Methods that hold parameters near old values."""

    def after_first_task(self, make, run):
        """Return parameters at the end of the first task of *run*, and which of them have all the stiffness there is."""
        tensors = load(make.shelf_of([run]).files(60)[f"{run.rid}.safetensors"])
        bound = tensors[".strategy.bound"]
        table = make.setup([run]).learner.model.table
        return {
            name: (tensors[f".params['{name}']"].numpy(), (tensors[f".strategy.stiffness['{name}']"] == bound).numpy())
            for name in table
        }

    def test_huge_strength_freezes(self, make, method, settings):
        """At a strength of 1e9 under a cap of 1 what mattered for the first task, most of all, stays; naive moves it."""
        protocol = {"scenario": "domain", "train": Train(steps=60, batch=16), "optim": ("sgd", {"lr": 0.02})}
        run = make.run(method=method, settings={**settings, "strength": 1e9}, **protocol)
        [held], [free] = make.outcomes([run]), make.outcomes([make.run(**protocol)])
        first = self.after_first_task(make, run)
        moves = [
            distance({n: o.parameters[n] * m for n, (_, m) in first.items()}, {n: v * m for n, (v, m) in first.items()})
            for o in (held, free)
        ]

        assert held.record.state == "finished"
        assert sum(mattered.sum() for _, mattered in first.values()) > 0.7 * held.record.cost.params_total
        assert moves[0] < 0.2 * moves[1]

    def test_penalty_is_recorded_and_positive(self, make, method, settings):
        """The record holds the penalty at the end of the last task, above 0, and the share of capped stiffness."""
        [outcome] = make.outcomes([make.run(method=method, settings={**settings, "strength": 1.0})])

        assert outcome.record.notes[f"{method}_penalty"] > 0
        assert 0 <= outcome.record.notes[f"{method}_capped_share"] <= 1

    def test_penalty_is_part_of_the_loss(self, make, method, settings):
        """The first task costs what it costs without springs, the second something else."""
        run = make.run(method=method, settings={**settings, "strength": 100.0})
        [held], [free] = make.outcomes([run]), make.outcomes([make.run()])

        assert held.record.train_loss[0] == free.record.train_loss[0]
        assert held.record.train_loss[1] != free.record.train_loss[1]


class TestTeacher:
    """What a teacher of any weight does."""

    def test_huge_weight_freezes(self, make):
        """At an alpha of 1e9 and steps of bounded length lwf stays where the first task ended; naive goes on moving."""
        sgd = ("sgd", {"lr": 0.02, "clip_norm": 1.0})
        protocol = {"scenario": "domain", "train": Train(steps=60, batch=16), "optim": sgd}
        run = make.run(method="lwf", settings={"alpha": 1e9}, **protocol)
        [held], [free] = make.outcomes([run]), make.outcomes([make.run(**protocol)])
        files = load(make.shelf_of([run]).files(60)[f"{run.rid}.safetensors"])
        first = {name: files[f".params['{name}']"].numpy() for name in held.parameters}

        assert held.record.state == "finished"
        assert distance(held.parameters, first) < 0.2 * distance(free.parameters, first)


@pytest.mark.parametrize(("method", "settings"), HUGE.values(), ids=HUGE)
class TestNothingHoldsBack:
    """Huge strengths without a cap, and without a bound on the length of a step."""

    def test_ends_as_diverged_and_not_with_nan(self, make, method, settings):
        """Every step overshoots further: the run ends in its second task as diverged, and what it leaves is finite."""
        run = make.run(method=method, settings=settings, optim=("sgd", {"lr": 0.02}), train=Train(steps=60, batch=16))
        [outcome] = make.outcomes([run])

        assert outcome.record.diverged["task"] == 1
        assert np.isfinite(np.concatenate([*outcome.record.train_loss, outcome.record.accuracy[0][:1]])).all()
        assert all(np.isfinite(values).all() for values in outcome.tensors.values())
        assert files_of(outcome).keys() == {"record.jsonl", "tensors.safetensors"}


class TestStiffnessCap:
    """What the cap is for, and where it does nothing."""

    @pytest.mark.parametrize(("cap", "state"), [(1.0, "finished"), ("off", "diverged")])
    def test_holds_mas_at_its_default_strength(self, make, cap, state):
        """Squared norms of logits have no bound: at rate 0.1 a strength of 1 diverges without a cap, so one is the default."""
        run = make.run(
            method="mas", settings={"stiffness_cap": cap}, optim=("sgd", {"lr": 0.1}), train=Train(steps=60, batch=16)
        )
        [outcome] = make.outcomes([run])

        assert outcome.record.state == state
        assert catalog.entry("method", "mas").settings().stiffness_cap == 1

    @pytest.mark.parametrize("method", ["ewc", "si"])
    def test_changes_nothing_where_springs_are_soft(self, make, method):
        """Stiffness below the bound is that of the published rule, bit by bit."""
        settings = [{"strength": 1.0, "stiffness_cap": cap} for cap in (1.0, "off")]
        capped, plain = (make.outcomes([make.run(method=method, settings=one)])[0] for one in settings)

        assert capped.record.notes[f"{method}_capped_share"] == 0
        assert distance(capped.parameters, plain.parameters) == 0


class TestReference:
    """The entries that projections of gradients look at."""

    def references(self, make, run):
        """Return the setup, occupancy after each task, and task, samples and weights of the references of all steps."""
        setup = make.setup([run])
        draws = draws_of(setup)
        memory, seen, occupied = initial_memory(setup), [], []
        for stage in setup.stages:
            step = 0
            while step < stage.schedule.steps:
                chunk = stage.schedule.chunk(step, 64)
                draw = draws.chunk(stage, chunk, memory)
                seen += [(stage.task, one.samples[:, 0], one.weight[:, 0]) for one in draw.references]
                step += chunk.count
            occupied.append(int(memory.occupied[0]))
        return setup, occupied, seen

    @pytest.mark.parametrize("total", [5, 20, 60, 500])
    def test_agem_fills_its_memory(self, make, total):
        """After each task it holds min(M, offered) entries, not one batch per task."""
        _, occupied, _ = self.references(make, make.run(method="agem", memory=memory_of("agem", total)))

        assert occupied == [min(total, offered) for offered in (40, 73, 120)]

    def test_agem_uses_more_of_a_larger_memory(self, make):
        """The mean number of distinct entries in a reference batch of 256 grows with M until all are used."""
        used = []
        for total in (5, 20, 60, 500):
            _, _, seen = self.references(make, make.run(method="agem", memory=memory_of("agem", total)))
            used.append(
                np.mean(
                    [
                        len(set(s[w > 0].tolist()))
                        for _, samples, weight in seen
                        for s, w in zip(samples[:, 0], weight[:, 0], strict=True)
                    ]
                )
            )

        assert used == sorted(used)
        assert used[0] < 5
        assert used[-1] == pytest.approx((40 * 6 + 73 * 6) / 12)

    def test_agem_draws_as_many_as_it_asks_for(self, make):
        """With a reference of 10 and 20 entries of earlier tasks at hand each step has 10 distinct ones, in all different."""
        run = make.run(method="agem", settings={"reference": 10}, memory=memory_of("agem", 40), train=Train(epochs=1, batch=16))
        _, _, seen = self.references(make, run)
        batches = [frozenset(s.tolist()) for _, samples, weight in seen for s in samples[:, 0]]

        assert {len(batch) for batch in batches} == {10}
        assert len(set(batches)) == len(batches)

    @pytest.mark.parametrize("method", ["agem", "gem"])
    def test_entries_are_those_of_earlier_tasks(self, make, method):
        """No reference holds a sample of the current task, and there is none in the first one; gem has one batch per task."""
        setup, _, seen = self.references(make, make.run(method=method, memory=memory_of(method, 30)))
        tasks = setup.stream.train_tasks

        assert {task for task, _, _ in seen} == {1, 2}
        for task, samples, weight in seen:
            for number in range(samples.shape[1]):
                counted = tasks[samples[:, number][weight[:, number] > 0]]
                assert (counted == number).all() if method == "gem" else (counted < task).all()
        if method == "gem":
            assert {samples.shape[1:] for _, samples, _ in seen} == {(1, 10), (2, 10)}
            assert all((weight == 1).all() for _, _, weight in seen)
