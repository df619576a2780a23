"""Whether members fit into memory together, told before they are trained."""

import pytest
import torch

from contilab import catalog
from contilab.engine import demand as demand_module
from contilab.engine import room as room_module
from contilab.engine.choice.form import Form
from contilab.engine.demand import COPIES, PIECES, Demand, bound, measured
from contilab.engine.ensemble import tree_bytes
from contilab.engine.environment import EXECUTIONS, TABLE, choose
from contilab.engine.executions import blocks
from contilab.engine.room import FILLED, Crowded, Room
from contilab.engine.setup import initial_members
from contilab.hardware.memory import MIB, Free
from contilab.spec.sections import Eval, Execution, Train

LOOP = Form("loop")
WIDE = ("mlp", {"hidden": [1500]})  # a member's state is a quarter of a MiB or so in each copy


def room_of(size):
    """Return a room of *size* bytes."""
    return Room(lambda _device: Free(size, "a few bytes left by this test"))


def group(make, members, method="naive", **settings):
    """Return the setup of *members* runs."""
    return make.setup([make.run(seed, method, **settings) for seed in range(members)])


@pytest.fixture
def takes(monkeypatch):
    """Let every group be measured to take 100 bytes for a member in training, 10 of which are shared, and more in exams."""
    asked = []

    def measured(setup, make, free):
        asked.append(len(setup.runs))
        return Demand(step=100, member=90, state=20, closing=150, is_measured=True)

    monkeypatch.setattr(room_module, "measured", measured)
    return asked


class TestDemand:
    """The arithmetic of two measurements."""

    @pytest.mark.parametrize(("members", "expected"), [(1, 170), (2, 190), (3, 280)])
    def test_the_larger_part_counts(self, members, expected):
        """Steps grow by what each member takes in them, exams by what members hold that wait."""
        assert Demand(100, 90, 20, 150, is_measured=True).of(members) == expected

    @pytest.mark.parametrize("free", [0, 170, 189, 190, 279, 280, 1000])
    def test_as_many_as_fit(self, free):
        """No more members fit than take what is free, and one more would not; one is tried in any case."""
        demand = Demand(100, 90, 20, 150, is_measured=True)
        fitting = demand.fitting(free, 50)

        assert fitting == 1 or demand.of(fitting) <= free
        assert demand.of(fitting + 1) > free

    @pytest.mark.parametrize(("members", "expected"), [(1, 170), (2, 240), (3, 380), (4, 470)])
    def test_parts_side_by_side(self, members, expected):
        """Each part that is trained beside others takes a step's memory of its own; there are no more parts than members."""
        assert Demand(100, 90, 20, 150, is_measured=True, beside=50, at_once=3).of(members) == expected

    @pytest.mark.parametrize("free", range(0, 1000, 10))
    def test_as_many_parts_as_fit(self, free):
        """No more members fit than take what is free with their parts, and one more would not."""
        demand = Demand(100, 90, 20, 150, is_measured=True, beside=50, at_once=3)
        fitting = demand.fitting(free, 50)

        assert fitting == 1 or demand.of(fitting) <= free
        assert demand.of(fitting + 1) > free

    def test_no_more_than_there_are(self):
        """A large room holds the members there are."""
        assert Demand(100, 90, 20, 150, is_measured=True).fitting(10**9, 7) == 7


class TestBound:
    """What shapes tell."""

    def test_grows_with_what_it_is_made_of(self, make):
        """A wider model, a larger batch of replay and a teacher's copy all take more; the numbers are of one member."""
        plain = bound(group(make, 2))

        assert bound(group(make, 8)) == plain
        assert bound(group(make, 2, model=("mlp", {"hidden": [64, 64]}))).member > plain.member
        assert bound(group(make, 2, "er")).member > plain.member
        assert bound(group(make, 2, "lwf")).state > plain.state
        assert bound(group(make, 2, "ewc")).closing > plain.closing

    def test_what_is_recorded_counts(self, make):
        """Parameters that the landscape keeps after each task, and features, belong to what a member holds."""
        tiers = {tier: bound(group(make, 2, eval=Eval(tier=tier))).state for tier in ("core", "extended", "full")}

        assert tiers["core"] < tiers["extended"] < tiers["full"]

    def test_data_are_not_counted(self, make):
        """What a layer keeps of its input is the input of a batch, not the pool that it was gathered from."""
        small, large = (make.setup([make.run()], make.stream((size, size, size))) for size in (40, 4000))

        assert bound(small).member == bound(large).member

    @pytest.mark.parametrize("model", [("convnet", {}), ("resnet18r", {}), ("resnet18r", {"norm": "batch"})])
    def test_of_models_of_images(self, make, model):
        """What convolutions keep of a picture counts for every sample of a batch, and an exam's for every sample of it."""
        stream = make.stream((18, 18), test=30, shape=(1, 8, 8))
        small, large = (make.setup([make.run(model=model, train=Train(epochs=1, batch=b))], stream) for b in (4, 8))
        found, double = bound(small), bound(large)

        assert double.member - found.member == demand_module.BACKWARD * 4 * found.closing // len(stream.test_inputs)
        assert double.closing == found.closing
        demand_module._sit(small)

    @pytest.mark.parametrize("method", list(catalog.STRATEGIES))
    def test_of_every_method(self, make, method):
        """Every method's bound holds a state for each copy, and its steps can be trained to be measured."""
        setup = group(make, 2, method)
        state = tree_bytes(initial_members(setup)[0])
        demand_module._train(setup, EXECUTIONS["loop"])

        assert bound(setup).member > bound(setup).state >= COPIES * state


class TestMeasured:
    """What training a few steps tells."""

    @pytest.mark.parametrize("form", ["loop", "batched"])
    def test_between_state_and_bound(self, make, form):
        """A member takes its states at least, and no more than the generous bound from shapes."""
        setup = group(make, 4, model=WIDE)
        found, most = measured(setup, EXECUTIONS[form], 2**40), bound(setup)

        assert found.is_measured
        assert most.state <= found.member <= most.member + 2 * MIB  # what the C library takes in pieces
        assert found.step >= most.state

    @pytest.mark.parametrize(
        ("hidden", "threads", "at_once"),
        [*[([1500, 200], threads, threads) for threads in (1, 2, 3, 4)], ([1500], 2, 1), ([1500, 750], 3, 5)],
    )
    def test_of_parts_side_by_side(self, make, monkeypatch, hidden, threads, at_once):
        """One thread is measured; each further member of a model that several threads train at once takes what a step does.

        Two of 4.6 MB share no block of one thread, but five those of three threads that train one part.
        """
        monkeypatch.setattr(demand_module, "_train", lambda *_: counts.append(torch.get_num_threads()))
        monkeypatch.setattr(demand_module, "_peak", lambda setup, act: (act(), 2**30 * (len(setup.runs) + 2))[1])
        counts = []
        torch.set_num_threads(threads)
        found = measured(group(make, 3, model=("mlp", {"hidden": hidden})), EXECUTIONS["loop"], 2**40)

        assert counts == [1, 1]
        assert (found.step, found.member, found.beside, found.at_once) == (3 * 2**30, 2**30, int(2**31 * PIECES), at_once)

    @pytest.mark.parametrize(
        ("threads", "members", "in_a_step"),
        [(1, 9, 1), (5, 4, 4), (7, 6, 6), (3, 2, 2), (4, 7, 7), (8, 7, 7), (2, 3, 3), (16, 15, 15)],
    )
    def test_no_more_are_in_a_step_than_are_counted(self, make, threads, members, in_a_step):
        """Of any number of members of 4.4 MB the batched form has no more in blocks side by side; of some it has as many."""
        setup = make.setup(
            [make.run(seed, model=("resnet18r", {})) for seed in range(17)], make.stream((18, 18), shape=(3, 8, 8))
        )
        beginning, gather = initial_members(setup), EXECUTIONS["batched"](setup.learner).gather
        torch.set_num_threads(threads)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocks, "stack", list)  # their tensors are not looked at
            gathered = [gather(beginning[:count]) for count in range(1, 18)]
        found = [sum(max(len(block) for block in part.ensemble) for part in parts) for parts in gathered]

        assert found[members - 1] == in_a_step
        assert max(found) <= demand_module._at_once(setup, tree_bytes(beginning[0].params))

    def test_of_five_in_a_block_of_three_threads(self, make):
        """Members that were measured apart are told to take what all of them keep in the step of one block."""
        runs = [make.run(seed, model=("resnet18r", {}), train=Train(epochs=1, batch=128)) for seed in range(5)]
        setup = make.setup(runs, make.stream((160, 160), shape=(3, 16, 16)))
        torch.set_num_threads(3)
        sizes = demand_module._sizes(setup)

        assert measured(setup, EXECUTIONS["batched"], 2**40).of(5) > 5 * (sizes.state + 128 * sizes.sample)

    def test_without_a_peak(self, make, monkeypatch, tmp_path):
        """Where the system does not tell the peak of a process the bound stands in."""
        monkeypatch.setattr("contilab.hardware.peak.RESET", tmp_path / "none" / "clear_refs")
        setup = group(make, 2)

        assert measured(setup, EXECUTIONS["loop"], 2**40) == bound(setup)

    def test_two_are_not_tried_where_one_is_large(self, make, monkeypatch):
        """Where one member takes more than half of what is free, each further one is taken to need as much."""
        counts = []
        train = demand_module._train

        def noting(setup, build):
            counts.append(len(setup.runs))
            return train(setup, build)

        monkeypatch.setattr(demand_module, "_train", noting)
        setup = group(make, 4, model=WIDE)
        found = measured(setup, EXECUTIONS["loop"], free=1)

        assert counts == [1]
        assert found.member == found.step


class TestRoom:
    """Groups that are checked."""

    def test_far_below_the_limit_nothing_is_measured(self, make, takes):
        """A group whose bound is less than a quarter of what is left is trained as it is."""
        setup = group(make, 8)
        room_of(5 * bound(setup).of(8)).check(setup, LOOP, TABLE)

        assert takes == []

    @pytest.mark.parametrize(
        ("members", "free", "parts"),
        [(5, 280, 2), (6, 280, 2), (7, 280, 3), (5, 190, 3), (5, 100, 5), (2, 0, 2)],
    )
    def test_as_few_parts_as_fit(self, make, takes, members, free, parts):
        """A group that does not fit is refused with the fewest parts that do, what a member takes, and what is left."""
        with pytest.raises(Crowded, match="planned before training") as refused:
            room_of(-(-free * 10 // 8)).check(group(make, members), LOOP, TABLE)

        assert refused.value.parts == parts
        assert refused.value.facts["bytes_per_member"] == 90
        assert refused.value.facts["bytes_free"] == -(-free * 10 // 8)
        assert "a few bytes left by this test" in refused.value.facts["reason"]

    def test_a_part_is_not_measured_again(self, make, takes):
        """The parts of a group that was split pass; each form is measured once."""
        room = room_of(int(280 / FILLED) + 1)
        with pytest.raises(Crowded):
            room.check(group(make, 5), LOOP, TABLE)
        for members in (3, 2):
            room.check(group(make, members), LOOP, TABLE)

        assert takes == [5]

    def test_one_run_is_never_refused(self, make, takes):
        """A run alone cannot be split: it is tried, wherever that ends."""
        room_of(0).check(group(make, 1), LOOP, TABLE)

        assert takes == []

    def test_a_group_that_fits(self, make, takes):
        """A group that was measured and fits is trained whole."""
        room_of(10_000).check(group(make, 5), LOOP, TABLE)

        assert takes == [5]

    def test_compiled_forms_are_measured_eagerly(self, make, monkeypatch):
        """Nothing is compiled to find out what a compiled form takes."""
        built = []
        monkeypatch.setattr(room_module, "measured", lambda _setup, make, _free: built.append(make) or Demand(1, 1, 1, 1, True))
        monkeypatch.setattr("torch.compile", None)
        monkeypatch.setattr("shutil.which", lambda _name: None)
        setup = group(make, 2)
        room_of(1000).check(setup, Form("loop", compile="on"), TABLE)

        assert built[0](setup.learner)

    def test_really_measured(self, make):
        """Without anything put in its place, a group of four that takes more than is left is split, by its own numbers."""
        setup = group(make, 4, model=WIDE)
        state = tree_bytes(initial_members(setup)[0])
        with pytest.raises(Crowded) as refused:
            room_of(4 * COPIES * state).check(setup, LOOP, TABLE)

        assert 2 <= refused.value.parts <= 4
        assert refused.value.facts["bytes_per_member"] >= COPIES * state
        assert "(measured)" in refused.value.facts["reason"]


class TestChoose:
    """Choosing a form where there is little room."""

    def test_nothing_is_tried_out(self, make, takes, monkeypatch):
        """Forms are not tried with all members where these might not fit; the refusal comes before any training."""
        monkeypatch.setattr("contilab.engine.environment.seconds_worth", lambda _setup: 1.0)
        monkeypatch.setattr("contilab.engine.environment.try_out", lambda *_: pytest.fail("it was tried out"))
        setup = group(make, 5)
        with pytest.raises(Crowded):
            choose(setup.runs, Execution(device="cpu"), setup.learner, setup=setup, room=room_of(280))

    def test_with_ample_room(self, make, monkeypatch):
        """Where all surely fit the forms are tried as ever."""
        tried = []
        monkeypatch.setattr("contilab.engine.environment.seconds_worth", lambda _setup: 1.0)
        monkeypatch.setattr("contilab.engine.environment.try_out", lambda *_: tried.append(True) or ())
        setup = group(make, 5)
        choose(setup.runs, Execution(device="cpu"), setup.learner, setup=setup, room=room_of(2**40))

        assert tried == [True]
