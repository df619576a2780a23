"""How a form is chosen: as asked for, by a profile, by a short measurement, by a rule of thumb."""

import time

import pytest
import torch

from contilab.engine.choice import trial as trial_module
from contilab.engine.choice.decide import Found, Question, Verdict, decide
from contilab.engine.choice.form import Form, Table, in_bf16
from contilab.engine.choice.offer import Asked, offered
from contilab.engine.choice.pace import Lap, Pace
from contilab.engine.choice.trial import seconds_worth, speed_of_blocks, try_out
from contilab.engine.environment import EXECUTIONS
from contilab.engine.setup import draws_of, initial_members, initial_memory
from contilab.errors import UsageError
from contilab.hardware.fingerprint import Machine
from contilab.hardware.profile import Answer, Profiles, Rate, Shape
from contilab.spec.sections import Train

LOOP, VMAP = Form("loop"), Form("vmap")
SHAPE = Shape(Machine("f" * 64, "2.13.0", {}), "cpu", "mlp", {}, 784, 32, 8)
OWN = SHAPE._replace(detail={"method": "naive"})
RULE = Verdict(VMAP, "a rule of thumb")
AUTO = Asked("auto", "auto", "auto")


def rate(form, speed, threads=1, processes=1):
    """Return what a form was measured at."""
    return Rate(*form, threads, processes, speed, 0.0)


def answer(*rates, by="bench"):
    """Return an answer of these rates."""
    return Answer(rates, by, "2026-01-01T00:00:00+00:00", 0.0)


def question(forms=(LOOP, VMAP), threads=1):
    """Return what is to be decided."""
    return Question(forms, RULE, SHAPE, OWN, threads)


def refuses(learner):
    """Refuse every learner."""
    raise ValueError("only for linear layers")


def work(seconds):
    """Keep this thread's processor busy."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def loop_after(before):
    """Return what builds the loop that calls *before* with the members before it trains them."""

    def made(learner):
        way = EXECUTIONS["loop"](learner)

        def train(members, lesson, draws):
            before(members)
            return way.train(members, lesson, draws)

        return way._replace(train=train)

    return made


@pytest.fixture
def no_bf16(monkeypatch):
    """A processor without bf16."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_f": True}, raising=False)


@pytest.fixture
def with_bf16(monkeypatch):
    """A processor with bf16."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True}, raising=False)


def first_losses(setup, make):
    """Return the losses [1, E] of the first step."""
    stage, execution = setup.stages[0], make(setup.learner)
    draws = draws_of(setup)
    drawn = draws.chunk(stage, stage.schedule.chunk(0, 1), initial_memory(setup))
    return execution.train(execution.gather(initial_members(setup)), setup.lesson(stage), drawn)[1]


class TestDecide:
    """Profile, then measurement, then rule."""

    def test_the_fastest_of_the_profile(self):
        """What bench measured decides, and the reason names the speeds and the day."""
        profiles = Profiles()
        profiles.keep(SHAPE, answer(rate(VMAP, 100.0), rate(LOOP, 200.0)))
        found = decide(question(), profiles, trial=pytest.fail)

        assert found.form == LOOP
        assert found.reason == "measured by bench on 2026-01-01: 200 samples/s; vmap fp32 100"

    def test_only_what_can_train(self):
        """The fastest form that can train the group, when the fastest of all cannot."""
        profiles = Profiles()
        profiles.keep(SHAPE, answer(rate(Form("batched"), 900.0), rate(LOOP, 200.0), rate(VMAP, 100.0)))

        assert decide(question(), profiles).form == LOOP

    def test_nearly_as_many_members(self):
        """Where bench measured nearly as many members, that decides before a trial does, and the reason tells how many."""
        profiles = Profiles()
        profiles.keep(SHAPE._replace(members=6), answer(rate(VMAP, 100.0), rate(LOOP, 200.0)))
        near = decide(question(), profiles, trial=pytest.fail)
        profiles.keep(SHAPE, answer(rate(VMAP, 300.0), rate(LOOP, 200.0)))
        exact = decide(question(), profiles, trial=pytest.fail)

        assert near == Verdict(LOOP, "measured by bench with 6 members on 2026-01-01: 200 samples/s; vmap fp32 100")
        assert exact == Verdict(VMAP, "measured by bench on 2026-01-01: 300 samples/s; loop fp32 200")

    def test_the_nearest_that_tells(self):
        """An answer that knows no speed with as many threads does not hide the next one, which does."""
        profiles = Profiles()
        profiles.keep(SHAPE, answer(rate(VMAP, 300.0, threads=2)))
        profiles.keep(SHAPE._replace(members=6), answer(rate(LOOP, 200.0)))

        assert decide(question(), profiles, trial=pytest.fail).form == LOOP

    def test_too_few_members(self):
        """A number of members beyond a factor of 1.5 decides nothing."""
        profiles = Profiles()
        profiles.keep(SHAPE._replace(members=4), answer(rate(LOOP, 200.0)))

        assert decide(question(), profiles) == RULE

    def test_as_many_threads(self):
        """Only what was measured with as many threads counts; otherwise the rule."""
        profiles = Profiles()
        profiles.keep(SHAPE, answer(rate(LOOP, 200.0, threads=2)))

        assert decide(question(), profiles) == RULE
        assert decide(question(threads=2), profiles).form == LOOP

    @pytest.mark.parametrize(("speed", "chosen"), [(109.0, VMAP), (111.0, VMAP._replace(precision="bf16"))])
    def test_a_near_tie(self, speed, chosen):
        """Arithmetic other than plain fp32 must win clearly."""
        bf16 = VMAP._replace(precision="bf16")
        profiles = Profiles()
        profiles.keep(SHAPE, answer(rate(bf16, speed), rate(VMAP, 100.0)))

        assert decide(question((VMAP, bf16)), profiles).form == chosen

    def test_measured_once(self):
        """Without a profile the eager forms are measured, once; what was found is kept and says who measured."""
        asked = []

        def trial(forms):
            asked.append(tuple(forms))
            return Found((rate(LOOP, 300.0), rate(VMAP, 100.0)))

        profiles = Profiles()
        compiled = LOOP._replace(compile="on")
        first = decide(question((LOOP, VMAP, compiled)), profiles, trial)
        second = decide(question((LOOP, VMAP, compiled)), profiles, trial)

        assert asked == [(LOOP, VMAP)]
        assert first == second
        assert first.form == LOOP
        assert first.reason.startswith("measured by auto")

    def test_kept_for_other_runners(self, tmp_path):
        """Another runner of the same machine finds it in the store."""
        decide(question(), Profiles(tmp_path), lambda _: Found((rate(LOOP, 300.0),)))

        assert decide(question(), Profiles(tmp_path), trial=pytest.fail).form == LOOP

    def test_a_profile_of_another_machine(self, tmp_path):
        """It is never used."""
        foreign = Machine("e" * 64, "2.13.0", {})
        Profiles(tmp_path).keep(SHAPE._replace(machine=foreign), answer(rate(LOOP, 200.0)))

        assert decide(question(), Profiles(tmp_path)) == RULE

    def test_not_worth_measuring(self):
        """Where a trial finds nothing, the rule of thumb chooses, and nothing is kept."""
        profiles = Profiles()

        assert decide(question(), profiles, lambda _: Found(())) == RULE
        assert profiles.find(OWN) is None

    def test_what_a_longer_study_may_find_otherwise(self, tmp_path):
        """What a trial found in too short a time decides for this group, after training too, and is not kept for others."""
        profiles = Profiles(tmp_path)
        before = decide(question(), profiles, lambda _: Found((rate(LOOP, 300.0),), is_final=False))

        assert before.form == LOOP
        assert decide(question(), profiles) == before
        assert Profiles(tmp_path).find(OWN) is None

    def test_one_form(self):
        """Where there is one form, nothing is measured."""
        assert decide(question((LOOP,)), Profiles(), trial=pytest.fail).form == LOOP


class TestOffered:
    """What there is to choose from."""

    @pytest.fixture
    def offer(self, make):
        """Return the offer for members of a perceptron, under a table of executions."""
        learner = make.setup([make.run()]).learner

        def ask(asked=AUTO, *, members=2, compiled=(), executions=("loop", "vmap"), is_vmappable=True, **own):
            table = Table({name: own.get(name, EXECUTIONS["loop"]) for name in executions}, dict.fromkeys(compiled, refuses))
            strategy = learner.strategy._replace(is_vmappable=is_vmappable)
            return offered(asked, learner._replace(strategy=strategy), "cpu", table, method="mine", members=members)

        return ask

    @pytest.mark.parametrize(
        ("executions", "members", "rule"),
        [
            (("loop", "vmap", "batched"), 2, "batched"),
            (("loop", "vmap"), 2, "vmap"),
            (("vmap", "loop"), 1, "loop"),
            (("new",), 2, "new"),
        ],
    )
    def test_rule_of_thumb(self, offer, no_bf16, executions, members, rule):
        """Several members of linear layers: batched, else vmap; one: loop; an execution that no rule knows comes last."""
        assert offer(executions=executions, members=members).rule.form == Form(rule)

    def test_one_member(self, offer, no_bf16):
        """For one member auto does not try what gains from several, unless it is asked for."""
        assert offer(executions=("loop", "vmap", "batched"), members=1).forms == (LOOP, Form("batched"))
        assert offer(Asked("vmap", "auto", "auto"), members=1).forms == (VMAP,)

    def test_refusals(self, offer, no_bf16):
        """An execution that refuses the learner is not offered, and that is no warning while others are."""
        found = offer(executions=("loop", "vmap"), vmap=refuses)

        assert (found.forms, found.warnings) == ((LOOP,), ())

    def test_asked_for_and_refused(self, offer, no_bf16):
        """Asked for by name it is given up with a warning that says why."""
        found = offer(Asked("vmap", "auto", "auto"), vmap=refuses)

        assert found.rule.form == LOOP
        assert found.warnings == ("vmap: ValueError: only for linear layers",)
        assert "only for linear layers" in found.reason("execution", found.rule)

    def test_unknown(self, offer):
        """An execution that does not exist is refused, with those that do."""
        with pytest.raises(UsageError, match='"grouped"'):
            offer(Asked("grouped", "auto", "auto"))

    @pytest.mark.parametrize("asked", ["auto", "vmap"])
    def test_not_vmappable(self, offer, no_bf16, asked):
        """A strategy that cannot be vmapped trains member by member, and its name is in the reason."""
        found = offer(Asked(asked, "auto", "auto"), is_vmappable=False)

        assert (found.forms, found.vmap_fallback) == ((LOOP,), True)
        assert "mine" in found.reason("execution", found.rule)

    def test_precision_by_capability(self, offer, with_bf16):
        """With the instruction sets both precisions are candidates, and the rule without measurement is fp32."""
        found = offer(executions=("loop",))

        assert found.forms == (LOOP, LOOP._replace(precision="bf16"))
        assert found.rule.form == LOOP

    def test_without_capability(self, offer, no_bf16):
        """Without them only fp32 is, and the reason names what is missing."""
        found = offer(executions=("loop",))

        assert found.forms == (LOOP,)
        assert "avx512_bf16 or amx_bf16" in found.reason("precision", found.rule)

    def test_bf16_without_capability(self, offer, no_bf16):
        """Asked for all the same, it is had with a warning that names them."""
        found = offer(Asked("auto", "bf16", "off"), executions=("loop",))

        assert found.forms == (LOOP._replace(precision="bf16"),)
        assert "lacks avx512_bf16 and amx_bf16" in found.warnings[0]

    def test_compile(self, offer, no_bf16):
        """Compiling that was asked for and cannot be had is given up with a warning."""
        found = offer(Asked("loop", "fp32", "on"), compiled=("loop",))

        assert found.rule.form == LOOP
        assert any("no compiled form" in warning for warning in found.warnings)


class TestTrial:
    """The short measurement, on a real group."""

    @pytest.fixture
    def setup(self, make):
        """Two members, ready to be trained."""
        return make.setup([make.run(seed, "er") for seed in range(2)])

    def test_rates(self, setup):
        """Every form gets a speed, fastest first, at this number of threads; it takes about its time, here some steps."""
        table = Table(EXECUTIONS, {})
        found = try_out(setup, [LOOP, VMAP], table, 0.05)

        assert {(one.execution, one.threads, one.processes) for one in found} == {("loop", 1, 1), ("vmap", 1, 1)}
        assert found[0].samples_per_s >= found[1].samples_per_s > 0

    def test_no_time(self, setup):
        """Without any time each form takes one step, which does."""
        assert len(try_out(setup, [LOOP, VMAP], Table(EXECUTIONS, {}), 0.0)) == 2

    def test_what_a_form_sets_up_is_not_its_speed(self, setup):
        """A form whose first step with all members is slow is fastest all the same, if its others are."""
        steps = []

        def begin(members):
            steps.append(len(members))
            work(0.2 if steps == [1, 2] else 0.0)

        forms = {"loop": loop_after(lambda _members: work(0.05)), "vmap": loop_after(begin)}
        found = try_out(setup, [LOOP, VMAP], Table(forms, {}), 0.0)

        assert [one.execution for one in found] == ["vmap", "loop"]

    @pytest.mark.parametrize(
        ("several", "expected"),
        [
            (Lap(5, 40, 0.7, 0.0), 8 / (0.1 + 0.2 / 64)),
            (Lap(12, 96, 1.6, 0.0, chunks=2), 8 / (0.1 + 0.2 / 64)),  # a beginning more
            (Lap(2, 16, 0.6, 0.0, chunks=2), 8 / 0.3),  # nothing to work it out from
            (Lap(5, 40, 0.25, 0.0), 8 / (0.035 + 0.075 / 64)),  # the first one was disturbed
            (Lap(5, 40, 5.0, 0.0), 8 / 1.0),  # the others were
        ],
    )
    def test_few_steps_tell_of_whole_blocks(self, several, expected):
        """A beginning of 0.2 s before steps of 0.1 s counts once per 64 steps; noise neither removes nor inflates it."""
        assert speed_of_blocks(Lap(1, 8, 0.3, 0.0), several, is_busy=False) == pytest.approx(expected)

    def test_a_form_that_is_kept_waiting_is_not_slow(self, setup):
        """While other processes have the processor, one thread's form is not slower than one that works as long."""
        forms = {"loop": loop_after(lambda _members: work(0.05)), "vmap": loop_after(lambda _members: time.sleep(0.1))}
        found = try_out(setup, [LOOP, VMAP], Table(forms, {}), 0.0)

        assert [one.execution for one in found] == ["vmap", "loop"]

    def test_failures(self, setup):
        """A form that fails is left out, and the others are measured."""
        table = Table({"loop": EXECUTIONS["loop"], "vmap": refuses}, {})

        assert [one.execution for one in try_out(setup, [VMAP, LOOP], table, 0.0)] == ["loop"]

    @pytest.mark.parametrize("call", [1, 2, 3, 4, 5, 40])
    def test_failures_at_any_time(self, make, call):
        """So is one that fails later, in whatever lap: the first ones, those of its share, or the race of the two fastest."""
        calls = []

        def fail(_members):
            calls.append(1)
            if len(calls) >= call:
                raise MemoryError

        table = Table({"loop": EXECUTIONS["loop"], "vmap": loop_after(fail)}, {})
        setup = make.setup([make.run(seed, train=Train(steps=100_000, batch=16)) for seed in range(2)])
        found = try_out(setup, [VMAP, LOOP], table, 1.0)

        assert [one.execution for one in found] == ["loop"]
        assert len(calls) == call

    def test_worth(self, make, setup):
        """A trifle is not worth measuring; long training is worth a twentieth of it, and 3 seconds at most."""
        long = make.setup([make.run(seed, train=Train(steps=1_000_000, batch=16)) for seed in range(2)])
        some = make.setup([make.run(seed, train=Train(steps=3_000, batch=16)) for seed in range(2)])

        assert seconds_worth(setup) == 0
        assert trial_module.LEAST_SECONDS <= seconds_worth(some) < trial_module.MOST_SECONDS
        assert seconds_worth(long) == trial_module.MOST_SECONDS

    def test_over_the_end_of_a_stage(self, setup):
        """A form in motion begins the stage again where it ends; samples are counted over members."""
        pace = Pace(setup, EXECUTIONS["loop"])
        steps = setup.stages[0].schedule.steps
        laps = [pace.lap(1) for _ in range(steps + 1)]

        assert [lap.steps for lap in laps] == [1] * (steps + 1)
        assert laps[0].samples == laps[-1].samples == 2 * 16


class TestRace:
    """The two fastest in turns."""

    class Stub:
        """A pace that takes no time, and notes how long it was to go on."""

        def __init__(self):
            self.asked = []

        def during(self, seconds):
            """Train nothing."""
            self.asked.append(seconds)
            return Lap(1, 1, 0.01, 0.01)

    @pytest.mark.parametrize(("seconds", "turns"), [(0.1, 0), (0.2, 1), (0.4, 2), (60.0, 5), (-1.0, 0)])
    def test_a_turn_has_several_steps_of_both(self, monkeypatch, seconds, turns):
        """With steps of 10 ms a turn of eight of both takes 0.16 s: as many turns fit, five at most, none with fewer."""
        monkeypatch.setattr(trial_module.time, "perf_counter", lambda: 0.0)
        first = Lap(1, 1, 0.01, 0.01)
        pair = [trial_module._Tried(form, self.Stub(), [first], [first], is_alone=False) for form in (LOOP, VMAP)]
        trial_module._race(pair, seconds)

        assert [len(tried.laps) - 1 for tried in pair] == [turns, turns]
        assert all(one > 7 * 0.01 for tried in pair for one in tried.pace.asked)


class TestBf16:
    """Products in bf16."""

    @pytest.mark.parametrize("way", sorted(EXECUTIONS))
    def test_near_fp32(self, make, way):
        """One step in bf16 gives losses within 2 % of fp32, parameters and losses in fp32; a bf16 number has 8 bits."""
        table = Table(EXECUTIONS, {})
        setup = make.setup([make.run(seed) for seed in range(2)])
        if table.refusal(Form(way, "bf16"), setup.learner, "cpu"):
            pytest.skip(f"{way} refuses this learner")
        losses = {precision: first_losses(setup, table.maker(Form(way, precision))) for precision in ("fp32", "bf16")}

        assert losses["bf16"].dtype == torch.float32
        torch.testing.assert_close(losses["bf16"], losses["fp32"], rtol=0.02, atol=0.02)
        assert not torch.equal(losses["bf16"], losses["fp32"])

    def test_gradients_are_fp32(self, make):
        """Logits come out in the type of the inputs, so losses and gradients are fp32."""
        setup = make.setup([make.run()])
        learner = in_bf16(setup.learner)
        x = setup.stream.train_inputs[:4]
        params = {name: torch.zeros(item.shape).requires_grad_() for name, item in learner.model.table.items()}
        logits = learner.model.forward(params, {}, x).logits
        logits.sum().backward()

        assert logits.dtype == torch.float32
        assert all(param.grad.dtype == torch.float32 for param in params.values())
