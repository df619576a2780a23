"""A snapshot is whole and of these runs and this model, or it is refused with one sentence."""

import hashlib
import json

import pytest
import torch
from safetensors.torch import load, save

from contilab.engine.checkpoint import STATE, Part, Snapshot, circumstances_of, pack, step_of, unpack
from contilab.engine.ensemble import MemberState
from contilab.engine.executions.loop import loop
from contilab.engine.setup import draws_of
from contilab.engine.stage import Session, train_stage
from contilab.engine.train import _beginning
from contilab.engine.watch import silent
from contilab.errors import CheckpointMismatch

NAMED = {"execution": "loop", "threads": 1}


class Case:
    """A snapshot of two members in Adam's hands, after some steps of one task."""

    def __init__(self, make, *, method="er", steps=4, task=0):
        self.runs = [make.run(seed, method, optim=("adam", {"lr": 0.01})) for seed in (3, 8)]
        self.setup = make.setup(self.runs)
        stage = self.setup.stages[task]
        stage = stage._replace(schedule=stage.schedule._replace(steps=steps))
        draws = draws_of(self.setup)
        begun = _beginning(self.setup, silent())
        members, part = train_stage(
            Session(self.setup, loop(self.setup.learner), draws, silent()), stage, begun.members, begun.memory
        )
        self.standing = begun._replace(task=task, part=part, members=members)
        self.snapshot = pack(self.setup, self.standing, NAMED)

    @property
    def files(self):
        """The files of the snapshot, to be spoilt."""
        return dict(self.snapshot.files)

    @property
    def name(self):
        """The file of the first member."""
        return f"{self.runs[0].rid}.safetensors"

    def refusal(self, files):
        """Return the fault for which *files* are refused."""
        with pytest.raises(CheckpointMismatch) as caught:
            unpack(self.setup, files)
        return caught.value.faults[0]


@pytest.fixture
def case(make):
    """A snapshot inside the first task."""
    return Case(make)


def signed(state):
    """Return the bytes of a state, with its digest."""
    body = json.dumps(state)
    return f'{{"sha256": "{hashlib.sha256(body.encode()).hexdigest()}", "state": {body}}}'.encode()


def with_tensors(files, name, change):
    """Return *files* with other tensors in the file *name*, and all digests made right again: only the content is wrong."""
    tensors = load(files[name])
    change(tensors)
    files[name] = save(tensors)
    return with_state(files, lambda state: state["sha256"].update({name: hashlib.sha256(files[name]).hexdigest()}))


def with_state(files, change):
    """Return *files* with another state, signed."""
    state = json.loads(files[STATE])["state"]
    change(state)
    return {**files, STATE: signed(state)}


class TestRoundTrip:
    """What is packed is unpacked."""

    @pytest.mark.parametrize("method", ["er", "ewc"])
    def test_everything_survives(self, make, method):
        """Members, marks, losses, step and seconds are those that were packed, bit by bit, in the same trees."""
        case = Case(make, method=method)
        found = unpack(case.setup, case.files)
        tree = torch.utils._pytree

        assert tree.tree_structure(found.members) == tree.tree_structure(case.standing.members)
        pairs = zip(tree.tree_leaves(found.members), tree.tree_leaves(case.standing.members), strict=True)
        assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in pairs)
        assert found.part.losses.tobytes() == case.standing.part.losses.tobytes()
        assert (found.task, found.part.step, found.part.seconds) == (0, 4, case.standing.part.seconds)
        assert [diary.facts() for diary in found.diaries] == [diary.facts() for diary in case.standing.diaries]

    def test_packing_what_was_unpacked_gives_the_same_files(self, case):
        """But for the clock, a second snapshot of the same standing has the same bytes."""
        again = pack(case.setup, unpack(case.setup, case.files), NAMED)

        assert {name: data for name, data in again.files.items() if name != STATE} == {
            name: data for name, data in case.files.items() if name != STATE
        }

    def test_step_counts_over_all_stages(self, make):
        """Two steps into the second task of six-step tasks are eight."""
        case = Case(make, task=1, steps=2)

        assert isinstance(case.snapshot, Snapshot)
        assert case.snapshot.step == step_of(case.setup, case.standing) == 8

    def test_members_share_no_memory_with_files(self, case):
        """What is unpacked may be written to in place: a second reading of the same bytes finds them as they were."""
        files = case.files
        unpack(case.setup, files).members[0].params["head.weight"].zero_()

        assert unpack(case.setup, files).members[0].params["head.weight"].abs().sum() > 0

    def test_members_are_aligned_as_torch_aligns(self, case):
        """Tensors of a file lie where the one before them ends; what is unpacked begins at multiples of 64 bytes again."""
        members = unpack(case.setup, case.files).members

        assert {leaf.data_ptr() % 64 for leaf in torch.utils._pytree.tree_leaves(members)} == {0}

    def test_views_of_one_stack_are_packed(self, case):
        """Tensors that share memory, as parameters and anchor might, are written apart."""
        first = case.standing.members[0]
        shared = MemberState(first.params, first.optimiser, {"anchor": first.params}, first.stored)
        files = pack(case.setup, case.standing._replace(members=[shared, shared]), NAMED).files
        found = load(files[case.name])

        assert torch.equal(found[".strategy['anchor']['head.weight']"], found[".params['head.weight']"])

    def test_losses_that_are_not_finite_survive(self, case):
        """Infinite and undefined losses come back as they were."""
        losses = case.standing.part.losses.copy()
        losses[1:, 1] = float("nan"), float("inf"), float("-inf")
        files = pack(case.setup, case.standing._replace(part=Part(4, losses, 1.0)), NAMED).files

        assert unpack(case.setup, files).part.losses.tobytes() == losses.tobytes()

    def test_holds_nothing_but_json_and_safetensors(self, case):
        """Every file is text of JSON or a table of tensors: none can run code when it is read."""
        state = json.loads(case.files[STATE])["state"]

        assert state["rids"] == [run.rid for run in case.runs]
        assert sorted(case.files) == sorted([STATE, *(f"{run.rid}.safetensors" for run in case.runs)])
        assert all(load(data) for name, data in case.files.items() if name != STATE)

    def test_names_what_it_was_trained_with(self, case):
        """Who resumes learns execution, threads and more from the files alone."""
        assert circumstances_of(case.files) == NAMED


class TestRefused:
    """What is not loaded."""

    def test_a_missing_tensor(self, case):
        """A key of the model that is not there is named."""
        fault = case.refusal(with_tensors(case.files, case.name, lambda tensors: tensors.pop(".params['head.weight']")))

        assert "missing [\".params['head.weight']\"], unknown []" in fault.problem

    def test_a_tensor_too_many(self, case):
        """A key that the model does not have is named."""
        fault = case.refusal(with_tensors(case.files, case.name, lambda tensors: tensors.update(extra=torch.zeros(1))))

        assert "unknown ['extra']" in fault.problem

    @pytest.mark.parametrize(
        "key",
        [
            ".params['head.weight']",
            ".optimiser.mean['head.bias']",
            ".strategy.tasks",
            "memory.samples",
            "prediction",
            "stage_losses",
        ],
    )
    def test_another_shape(self, case, key):
        """Every part of a member has the shape that it has here."""
        fault = case.refusal(with_tensors(case.files, case.name, lambda tensors: tensors.update({key: tensors[key][None]})))

        assert f"{key} has shape [1" in fault.problem

    @pytest.mark.parametrize(
        "key", [".params['head.weight']", ".optimiser.step", ".strategy.tasks", "memory.number", "confidence", "stage_losses"]
    )
    def test_another_dtype(self, case, key):
        """Nothing is converted on loading, not even what would fit."""
        fault = case.refusal(with_tensors(case.files, case.name, lambda tensors: tensors.update({key: tensors[key].half()})))

        assert f"{key} has dtype torch.float16" in fault.problem

    def test_other_runs(self, case, make):
        """A run that the snapshot does not hold is named by the start of its address."""
        run = make.run(4)
        with pytest.raises(CheckpointMismatch, match=run.rid[:12]):
            unpack(make.setup([run]), case.files)

    def test_another_model(self, case, make):
        """Under the very addresses, a model of other widths refuses the tensors."""
        other = make.setup([make.run(3, "er", model=("mlp", {"hidden": [16, 8]}), optim=("adam", {"lr": 0.01}))])
        setup = case.setup._replace(learner=other.learner)
        with pytest.raises(CheckpointMismatch, match="shape"):
            unpack(setup, case.files)

    def test_another_optimiser(self, case, make):
        """A state of Adam is none of gradient descent."""
        setup = case.setup._replace(learner=case.setup.learner._replace(optimiser=make.setup([make.run()]).learner.optimiser))
        with pytest.raises(CheckpointMismatch, match="missing"):
            unpack(setup, case.files)

    def test_another_precision(self, case, make):
        """A float32 snapshot is not loaded into float64 training."""
        with pytest.raises(CheckpointMismatch, match="dtype"):
            unpack(make.setup(case.runs, dtype=torch.float64), case.files)

    def test_a_stage_that_does_not_exist(self, case):
        """A snapshot of five tasks is none of three."""
        assert "stage 5 of 3" in case.refusal(with_state(case.files, lambda state: state.update(task=5))).problem

    @pytest.mark.parametrize("which", [STATE, "first", "second"])
    def test_parts_of_two_snapshots(self, make, which):
        """One file of an earlier snapshot among those of a later one is found, whichever it is."""
        earlier, later = Case(make, steps=2), Case(make, steps=4)
        name = {"first": later.name, "second": f"{later.runs[1].rid}.safetensors"}.get(which, which)
        fault = later.refusal({**later.files, name: earlier.files[name]})

        assert "its content is not what" in fault.problem

    @pytest.mark.parametrize("place", [0, 0.3, 0.7, -1])
    @pytest.mark.parametrize("which", ["state", "tensors"])
    def test_a_flipped_byte(self, case, which, place):
        """One bit changed anywhere is found, where a reader of tensors alone would take it for a number."""
        name = STATE if which == "state" else case.name
        data = bytearray(case.files[name])
        data[int(place * len(data)) if place >= 0 else -1] ^= 1

        assert case.refusal({**case.files, name: bytes(data)}).place == f"checkpoint, {name}"

    @pytest.mark.parametrize("size", [0, 10, 0.5])
    @pytest.mark.parametrize("which", ["state", "tensors"])
    def test_a_cut_file(self, case, which, size):
        """An empty file, and half of one."""
        name = STATE if which == "state" else case.name
        data = case.files[name]
        cut = data[: size if isinstance(size, int) else int(size * len(data))]

        assert case.refusal({**case.files, name: cut}).place == f"checkpoint, {name}"

    @pytest.mark.parametrize("which", ["state", "tensors"])
    def test_a_missing_file(self, case, which):
        """The file that is not there is named."""
        name = STATE if which == "state" else case.name
        fault = case.refusal({key: data for key, data in case.files.items() if key != name})

        assert (fault.place, fault.problem) == (f"checkpoint, {name}", "it is missing")

    def test_a_file_too_many(self, case):
        """A file that the state does not know is named."""
        assert case.refusal({**case.files, "notes.txt": b""}).problem == "it does not belong to the snapshot"

    def test_what_is_no_table_of_tensors(self, case):
        """A file with the right digest and wrong content is refused, not passed on as another error."""
        files = {**case.files, case.name: b"12345678"}
        digest = hashlib.sha256(files[case.name]).hexdigest()

        assert (
            "safetensors" in case.refusal(with_state(files, lambda state: state["sha256"].update({case.name: digest}))).problem
        )

    @pytest.mark.parametrize(
        "change",
        [
            lambda state: state["diaries"].popitem(),
            lambda state: next(iter(state["diaries"].values())).clear(),
            lambda state: state.pop("seconds"),
            lambda state: state.update(task="first"),
        ],
    )
    def test_notes_of_another_version(self, case, change):
        """A whole snapshot of a version that noted other things under the same format is refused, and fails no training."""
        fault = case.refusal(with_state(case.files, change))

        assert fault.place == f"checkpoint, {STATE}"
        assert fault.problem.startswith("it was not written as this version reads it: ")

    def test_another_format(self, case):
        """A snapshot of a later version says which one."""
        fault = case.refusal(with_state(case.files, lambda state: state.update(format="contilab.snapshot/5")))

        assert "'contilab.snapshot/5', this version reads 'contilab.snapshot/4'" in fault.problem

    def test_says_it_in_one_sentence(self, case):
        """A refusal is one line with its place, and one with the way out."""
        with pytest.raises(CheckpointMismatch) as caught:
            unpack(case.setup, {})

        assert str(caught.value) == (
            "checkpoint, state.json: it is missing\n  hint: go on from an older checkpoint, or begin anew"
        )
