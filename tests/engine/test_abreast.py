"""Parts of the members side by side, each in a thread of its own."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from contilab.engine.choice.form import Form
from contilab.engine.environment import TABLE
from contilab.engine.executions import abreast as module
from contilab.engine.executions import rounding
from contilab.engine.executions.abreast import abreast
from contilab.engine.executions.batched import batched
from contilab.engine.executions.contract import Execution
from contilab.engine.executions.loop import loop
from contilab.engine.setup import draws_of, initial_members, initial_memory
from contilab.engine.train import train_group
from contilab.engine.watch import silent
from contilab.spec.sections import Train

METHODS = ("naive", "ewc", "derpp", "agem", "lwf", "icarl")  # folds, pulls, keeps logits, refers, teaches, rearranges


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    """Let torch have two threads, which another fixture takes back, and let no work be too small for two."""
    torch.set_num_threads(2)
    monkeypatch.setattr(module, "LEAST_BYTES", 0)


@pytest.fixture
def group(make):
    """Return a function of numbers of members to what an execution of them takes: learner, members, lesson, draws."""

    def grouped(count, **changes):
        setup = make.setup([make.run(seed) for seed in range(count)])
        stage = setup.stages[0]
        draws = draws_of(setup).chunk(stage, stage.schedule.chunk(0, 3), initial_memory(setup))
        learner = setup.learner._replace(model=setup.learner.model._replace(**changes))
        return SimpleNamespace(learner=learner, members=initial_members(setup), lesson=setup.lesson(stage), draws=draws)

    return grouped


class Workshop:
    """Makes executions that train nothing, and notes in which thread each does so, with how many threads of torch's."""

    def __init__(self, work=lambda _place: None):
        self.built, self.seen, self._work = 0, {}, work

    def __call__(self, _learner):
        """Build one."""
        place, self.built = self.built, self.built + 1

        def train(members, _lesson, draws):
            self.seen[place] = (threading.get_ident(), torch.get_num_threads(), len(members))
            self._work(place)
            return members, draws.current.sum(-1).float()

        return Execution(gather=list, scatter=list, train=train)

    def trained(self, group, **options):
        """Train *group* by a chunk; return the losses."""
        execution = abreast(self, **options)(group.learner)
        return execution.train(execution.gather(group.members), group.lesson, group.draws)[1]


class TestNumbers:
    """What is trained side by side."""

    @pytest.fixture(autouse=True)
    def uneven(self, monkeypatch):
        """Let parts be of any size."""
        monkeypatch.setattr(module, "MOST_UNEVEN", 2.0)

    @pytest.mark.parametrize("form", [batched, loop])
    @pytest.mark.parametrize("method", METHODS)
    def test_parts_equal_the_loop(self, make, method, form):
        """Three members in two parts end where those of the loop end, within 1e-9 in float64, whatever a step holds."""
        runs = [make.run(seed, method, train=Train(steps=7, batch=16)) for seed in range(3)]
        setup = make.setup(runs, dtype=torch.float64)
        apart = train_group(setup, abreast(form), silent())
        looped = train_group(setup, loop, silent())

        gaps = [
            abs(a.parameters[name] - b.parameters[name]).max()
            for a, b in zip(apart, looped, strict=True)
            for name in a.parameters
        ]
        assert max(gaps) < 1e-9

    @pytest.mark.parametrize("precision", ["fp32", "bf16"])
    def test_the_loop_in_parts_has_the_bits_of_one_thread(self, make, precision):
        """Where there are as many parts as threads each has one, so a member has the bits that it has with one in all."""
        setup = make.setup([make.run(seed, train=Train(steps=5, batch=16)) for seed in range(2)])
        forward, seen, bits = setup.learner.model.forward, set(), []

        def watched(*arguments):
            if threading.current_thread().name.startswith("abreast"):
                seen.add(torch.get_num_threads())
            return forward(*arguments)

        learner = setup.learner._replace(model=setup.learner.model._replace(forward=watched))
        for threads in (1, 2):
            assert not seen
            torch.set_num_threads(threads)
            found = train_group(setup._replace(learner=learner), TABLE.maker(Form("loop", precision)), silent())
            bits.append([{name: value.tobytes() for name, value in one.parameters.items()} for one in found])

        assert bits[0] == bits[1]
        assert seen == {1}

    def test_losses_and_members_keep_their_order(self, group):
        """Whichever part ends first, the numbers of a member stand in its place."""
        second = threading.Event()
        workshop = Workshop(lambda place: second.set() if place else second.wait(10))
        five = group(5)

        assert torch.equal(workshop.trained(five), five.draws.current.sum(-1).float())


class TestThreads:
    """Which threads do what."""

    @pytest.mark.parametrize(
        ("threads", "members", "sizes", "share"),
        [(2, 4, [2, 2], 1), (2, 11, [5, 6], 1), (4, 2, [1, 1], 2), (4, 6, [3, 3], 2), (3, 2, [2], 3), (2, 5, [5], 2)],
    )
    def test_each_part_has_a_thread_and_its_share(self, group, threads, members, sizes, share):
        """There are as many nearly equal parts as threads divide into; with several none is the thread that calls."""
        torch.set_num_threads(threads)
        meeting = threading.Barrier(len(sizes))
        workshop = Workshop(lambda _place: meeting.wait(10))
        workshop.trained(group(members))

        assert [size for _, _, size in map(workshop.seen.get, range(len(sizes)))] == sizes
        assert {one for _, one, _ in workshop.seen.values()} == {share}
        assert len({ident for ident, _, _ in workshop.seen.values()} | {threading.get_ident()}) == len(sizes) + (len(sizes) > 1)
        assert torch.get_num_threads() == threads

    @pytest.mark.parametrize(("threads", "members", "changes"), [(1, 4, {}), (2, 1, {}), (2, 4, {"rounds": True})])
    def test_one_part_stays_with_who_calls(self, group, monkeypatch, threads, members, changes):
        """So it is with one thread, one member, and where the library rounds products, which is a state of the process."""
        monkeypatch.setattr(rounding, "is_offered", lambda: True)
        torch.set_num_threads(threads)
        workshop = Workshop()
        workshop.trained(group(members, **changes))

        assert workshop.seen == {0: (threading.get_ident(), threads, members)}

    @pytest.mark.parametrize(
        ("is_offered", "changes", "options"),
        [(True, {}, {"in_bf16": True}), (False, {}, {}), (True, {"chain": ()}, {})],
        ids=["the loop", "tensors in bf16", "no chain"],
    )
    def test_what_rounds_in_each_thread_for_itself_is_parted(self, group, monkeypatch, is_offered, changes, options):
        """Autocast is a state of a thread, and tensors are none at all, so training is parted in bf16 too."""
        monkeypatch.setattr(rounding, "is_offered", lambda: is_offered)
        workshop = Workshop()
        workshop.trained(group(4, rounds=True, **changes), **options)

        assert workshop.built == 2

    def test_small_models_stay_with_who_calls(self, group, monkeypatch):
        """Where operations are shorter than what the interpreter does between them, threads would wait for each other."""
        four = group(4)
        size = sum(value.nbytes for value in four.members[0].params.values())
        found = []
        for least in (size, size + 1):
            monkeypatch.setattr(module, "LEAST_BYTES", least)
            workshop = Workshop()
            workshop.trained(four)
            found.append(workshop.built)

        assert found == [2, 1]

    def test_tiny_numbers_are_zero_in_every_thread(self, group):
        """Threads take over from the one that first calls that numbers too small for full precision are zeros."""
        found = {}

        def work(place):
            found[place] = float(torch.full((64,), 1e-30).mul_(1e-10).sum())

        module._pool.cache_clear()
        torch.set_flush_denormal(True)
        try:
            Workshop(work).trained(group(2))
        finally:
            torch.set_flush_denormal(False)
            module._pool.cache_clear()

        assert found == {0: 0.0, 1: 0.0}


class TestErrors:
    """What goes wrong in a part."""

    def test_an_error_waits_for_the_other_parts(self, group):
        """It is raised once nobody trains any more, so that the group can be trained otherwise; threads are given back."""
        ended = threading.Event()

        def work(place):
            if place == 0:
                raise MemoryError
            threading.Event().wait(0.05)
            ended.set()

        with pytest.raises(MemoryError):
            Workshop(work).trained(group(2))

        assert ended.is_set()
        assert torch.get_num_threads() == 2


class TestAgain:
    """Members that are gathered again."""

    def test_executions_are_built_once(self, group):
        """What they recorded serves all stages: two of one group, then a single member of it."""
        workshop, two = Workshop(), group(2)
        execution = abreast(workshop)(two.learner)
        for members in (two.members, two.members, two.members[:1]):
            assert execution.scatter(execution.gather(members)) == members

        assert workshop.built == 2

    def test_members_come_back_in_order(self, group):
        """After training in parts each is in its place, and none shares memory with what was handed over."""
        five = group(5)
        execution = abreast(batched)(five.learner)
        members = execution.scatter(execution.gather(five.members))

        same = [
            np.array_equal(a.params[name], b.params[name])
            for a, b in zip(members, five.members, strict=True)
            for name in a.params
        ]
        assert all(same)
