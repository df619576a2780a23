"""Pictures are learned as each member's own draw shows them, in every execution alike, and measured as they are."""

import json

import numpy as np
import pytest
import torch

from contilab.data.normalisation import Normalisation
from contilab.engine.augmentation import AUGMENTATIONS, Augmentation, shown
from contilab.engine.environment import EXECUTIONS
from contilab.engine.executions.batched import batched
from contilab.engine.setup import draws_of, initial_members, initial_memory
from contilab.errors import InputError
from contilab.spec.run import run_from
from contilab.spec.sections import Train

SHAPE = (2, 8, 8)
TRAIN = Train(epochs=2, batch=16, augment="crop_flip")
METHODS = ["derpp", "agem", "gem", "lwf", "gdumb", "icarl", "ewc"]  # each kind of batch, and what looks at pictures as they are
MODEL = ("convnet", {"channels": [8]})

every_way = pytest.mark.parametrize("way", EXECUTIONS)
every_other_way = pytest.mark.parametrize("way", [name for name in EXECUTIONS if name != "loop"])


@pytest.fixture
def pictures(make):
    """Return a stream of three tasks of small pictures."""
    return make.stream((20, 17, 23), test=5, shape=SHAPE)


def run_of(make, seed=0, method="naive", **sections):
    """Return a run of a small convolution net that learns augmented pictures."""
    return make.run(seed, method, **{"model": MODEL, "train": TRAIN, **sections})


def by_hand(picture, view, padding):
    """Return what *view* shows of *picture* [C, H, W]: padded, cropped and mirrored, one after the other."""
    down, right, is_mirrored = (int(number) for number in view)
    height, width = picture.shape[1:]
    padded = np.pad(picture, ((0, 0), (padding, padding), (padding, padding)))
    crop = padded[:, padding + down : padding + down + height, padding + right : padding + right + width]
    return crop[:, :, ::-1] if is_mirrored else crop


class TestShown:
    """What a view shows."""

    @pytest.mark.parametrize("name", ["crop", "flip", "crop_flip"])
    @pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
    def test_is_the_crop_of_the_padded_picture(self, name, dtype):
        """Each of all views is the padded picture, cropped and mirrored by numpy, in the type in which it is stored."""
        own = AUGMENTATIONS[name]
        views = torch.from_numpy(own.drawn((np.arange(own.views) + 0.5) / own.views))
        inputs = torch.randint(1, 256, (own.views, 3, 6, 7), generator=torch.Generator().manual_seed(0)).to(dtype)
        found = shown(inputs, views)

        assert found.dtype == dtype
        assert len({tuple(view) for view in views.tolist()}) == own.views
        for picture, view, one in zip(inputs.numpy(), views, found.numpy(), strict=True):
            assert np.array_equal(one, by_hand(picture, view, own.padding))

    def test_of_pictures_without_channels(self):
        """Pictures [B, H, W] are shown like those of one channel."""
        inputs = torch.arange(2.0 * 5 * 5).reshape(2, 5, 5)
        views = torch.tensor([[1, -2, 0], [-3, 0, 1]])

        assert torch.equal(shown(inputs, views), shown(inputs[:, None], views)[:, 0])

    def test_all_views_are_equally_likely(self):
        """Of 162 views each is drawn by numbers of the same measure: 10,000 numbers on a grid differ by one at most."""
        views = Augmentation(4, is_mirrored=True).drawn((np.arange(162 * 60) + 0.5) / (162 * 60))
        _, counts = np.unique(views, axis=0, return_counts=True)

        assert counts.tolist() == [60] * 162


class TestDraws:
    """Which views chance chooses."""

    @pytest.mark.parametrize("method", ["derpp", "agem", "gem"])
    def test_are_a_function_of_seed_and_step(self, make, pictures, method):
        """In chunks of any length and in any company, a member is shown the same views of the same batches."""
        wholes = [views_of(make, pictures, method, seeds, limit) for seeds, limit in (((5,), 1), ((0, 5), 64), ((5, 1), 3))]
        one, two, three = (leaves[:, place] for leaves, place in zip(wholes, (0, 1, 0), strict=True))

        assert one.tobytes() == two.tobytes() == three.tobytes()

    def test_are_drawn_anew_for_each_batch(self, make, pictures):
        """Two passes, two draws from memory and two seeds show other views."""
        leaves = views_of(make, pictures, "derpp", (0, 5), 64)

        assert len({leaves[step, member].tobytes() for step in range(len(leaves)) for member in range(2)}) == 2 * len(leaves)

    def test_leave_all_other_draws_as_they_are(self, make, pictures, drawn):
        """Order, replay and memory of a run are those of the same seed without augmentation."""
        make.outcomes([run_of(make, method="derpp")], stream=pictures)
        augmented = drawn.copy()
        drawn.clear()
        make.outcomes([run_of(make, method="derpp", train=Train(epochs=2, batch=16))], stream=pictures)

        assert drawn == augmented


def views_of(make, stream, method, seeds, limit):
    """Return all views of the second stage as one array [S, E, numbers]; its last batch is smaller and left out."""
    setup = make.setup([run_of(make, seed, method) for seed in seeds], stream)
    draws = draws_of(setup)
    memory, found = initial_memory(setup), []
    for stage in setup.stages[:2]:
        step = 0
        while step < stage.schedule.steps:
            chunk = stage.schedule.chunk(step, limit)
            draw = draws.chunk(stage, chunk, memory)
            views = [*draw.views, *(view for own in (*draw.replay.values(), *draw.references) for view in own.views)]
            if stage.task == 1 and chunk.batch == 16:
                found.append(torch.cat([view.flatten(2) for view in views], dim=2).numpy())
            step += chunk.count
    return np.concatenate(found)


class TestTraining:
    """Runs that learn augmented pictures."""

    @pytest.mark.parametrize("method", METHODS)
    def test_member_equals_the_seed_alone_bit_by_bit(self, make, pictures, method):
        """By the loop, a member of a group has all numbers of its seed alone."""
        runs = [run_of(make, seed, method) for seed in (5, 0)]
        together = make.facts(make.outcomes(runs, stream=pictures))
        alone = [make.facts(make.outcomes([run], stream=pictures))[0] for run in runs]

        assert [{**one, "cost": None, "record": None} for one in together] == [
            {**one, "cost": None, "record": None} for one in alone
        ]

    @every_other_way
    @pytest.mark.parametrize("method", METHODS)
    def test_every_execution_equals_the_loop(self, make, once, pictures, method, way):
        """Parameters after three tasks in float64 agree within 1e-9, stored logits and references included."""
        runs = [run_of(make, seed, method) for seed in range(2)]
        looped = once(method, lambda: make.outcomes(runs, "loop", stream=pictures, dtype=torch.float64))
        other = make.outcomes(runs, way, stream=pictures, dtype=torch.float64)

        for one, two in zip(looped, other, strict=True):
            assert max(abs(one.parameters[name] - two.parameters[name]).max() for name in one.parameters) < 1e-9

    @every_way
    def test_a_perceptron_learns_pictures_that_are_stored_as_bytes(self, make, pictures, way):
        """Linear layers, whose batched passes are written by hand, train on bytes as on the numbers they stand for."""
        constants = Normalisation(shift=(0.0,), scale=(50.0,))
        pools = {name: (60 + 20 * getattr(pictures, name)).clamp(0, 255).byte() for name in ("train_inputs", "test_inputs")}
        small = pictures._replace(**pools, normalisation=constants)
        large = pictures._replace(**{name: constants.apply(pool) for name, pool in pools.items()})
        runs = [run_of(make, seed, "derpp", model=("mlp", {})) for seed in range(2)]
        one, two = (make.facts(make.outcomes(runs, way, stream=stream)) for stream in (small, large))

        assert [each["parameters"] for each in one] == [each["parameters"] for each in two]

    @pytest.mark.parametrize("way", ["loop", "vmap"])
    @pytest.mark.parametrize("method", ["derpp", "agem"])
    def test_resumed_is_never_stopped(self, make, looks, pictures, method, way):
        """Stopped before steps in the middle of epochs and tasks, a run ends at the same bits."""
        runs = [run_of(make, seed, method) for seed in (3, 8)]
        whole = make.facts(make.outcomes(runs, way, stream=pictures))

        assert make.facts(make.in_pieces(runs, way, [1, 6, 9], stream=pictures)) == whole

    def test_memory_keeps_the_logits_of_what_was_shown(self, make, pictures):
        """A sample's stored logits are those of the view that it was learned by, not of the picture as it is."""
        runs = [run_of(make, method="der", train=Train(steps=1, batch=4, augment="crop_flip"))]
        setup = make.setup(runs, pictures)
        draws = draws_of(setup)
        stage = setup.stages[0]
        draw = draws.chunk(stage, stage.schedule.chunk(0, 1), initial_memory(setup))
        ensemble = batched(setup.learner).gather(initial_members(setup))
        params = initial_members(setup)[0].params
        [block], _ = batched(setup.learner).train(ensemble, setup.lesson(stage), draw)
        view = shown(setup.stream.train_inputs[draw.current[0, 0]], draw.views[0][0, 0])
        logits = setup.learner.model.forward(params, {}, view).logits

        assert torch.allclose(block.stored[0, draw.keep[0][0, 0]], logits, atol=1e-5)

    def test_changes_what_is_learned(self, make, pictures):
        """The same seed ends elsewhere with each augmentation, and where it ended before without any."""
        ends = {
            name: make.outcomes([run_of(make, train=Train(epochs=2, batch=16, augment=name))], stream=pictures)[0].parameters
            for name in AUGMENTATIONS
        }

        assert len({own["head.weight"].tobytes() for own in ends.values()}) == len(AUGMENTATIONS)


class TestRefused:
    """What cannot be augmented."""

    def test_flat_inputs(self, make):
        """Inputs without height and width are refused in one sentence that names the setting and the shape."""
        with pytest.raises(
            InputError, match=r'^train\.augment: "crop" moves pixels of pictures, .* have shape \[12\]'
        ) as raised:
            make.setup([make.run(train=Train(epochs=1, augment="crop"))])

        assert "\n" not in raised.value.faults[0].problem


class TestAddress:
    """What the setting does to the addresses of runs."""

    def test_is_part_of_it_and_survives_json(self, make):
        """Runs with and without are two, each read back as itself."""
        runs = [run_of(make, train=Train(epochs=1, augment=name)) for name in AUGMENTATIONS]

        assert len({run.rid for run in runs}) == len(runs)
        assert [run_from(json.loads(json.dumps(run.spec))).rid for run in runs] == [run.rid for run in runs]
