"""Every optimiser of the catalog keeps the contract of optimisers."""

import pytest
import torch
from safetensors.torch import load, save
from torch.func import vmap
from torch.utils import _pytree as pytree

from contilab import catalog
from contilab.optim.contract import Optimiser
from contilab.spec.fields import per_member

SETTINGS = {"sgd": {"momentum": 0.9, "weight_decay": 1e-3}, "adam": {"weight_decay": 1e-3}}  # what the defaults leave unused


def cases():
    """Return the default settings of every optimiser, and settings that use all of its parts."""
    for name in catalog.OPTIMISERS:
        settings = catalog.entry("optim", name).settings
        yield pytest.param(name, settings(), id=name)
        if name in SETTINGS:
            yield pytest.param(name, settings(**SETTINGS[name]), id=f"{name}-all")


def built(name, settings) -> Optimiser:
    """Return the optimiser of these settings."""
    return catalog.entry("optim", name).make(settings)


def values_of(settings, factor=1.0):
    """Return the per-member settings, times *factor*."""
    return {key: getattr(settings, key) * factor for key in per_member(type(settings))}


def tensors(seed):
    """Return parameters or gradients; 37 entries leave a rest for every vector width."""
    generator = torch.Generator().manual_seed(seed)
    return {"a": torch.randn(37, generator=generator), "b": torch.randn(3, 5, generator=generator)}


def run(update, params, state, steps=5, seed=100):
    """Return parameters and state after steps on fixed gradients."""
    for step in range(steps):
        params, state = update(params, tensors(seed + step), state)
    return params, state


def stacked(trees):
    """Return trees as one, with the member axis first."""
    return pytree.tree_map(lambda *leaves: torch.stack(leaves), *trees)


def assert_equal(expected, actual):
    """Compare all tensors of two trees bitwise."""
    torch.testing.assert_close(pytree.tree_leaves(actual), pytree.tree_leaves(expected), rtol=0, atol=0)


@pytest.mark.parametrize(("name", "settings"), list(cases()))
class TestOptimiser:
    """What every optimiser has to keep."""

    def test_keeps_no_gradient(self, name, settings):
        """An update may write into all of its arguments, but what it returns does not share memory with the gradients."""
        optimiser = built(name, settings)
        gradients = tensors(7)
        moved = optimiser.update(tensors(0), gradients, optimiser.init(tensors(0), values_of(settings)))
        before = pytree.tree_map(torch.clone, moved)

        for gradient in gradients.values():
            gradient.zero_()

        assert_equal(before, moved)

    def test_state_does_not_share_the_parameters(self, name, settings):
        """The initial state has tensors of its own, so writing into parameters does not reach it."""
        params = tensors(0)
        state = built(name, settings).init(params, values_of(settings))
        before = pytree.tree_map(torch.clone, state)

        for theta in params.values():
            theta.add_(1)

        assert_equal(before, state)

    def test_repeats_its_bits(self, name, settings):
        """The same arguments give the same bits."""
        optimiser = built(name, settings)
        ends = [run(optimiser.update, tensors(0), optimiser.init(tensors(0), values_of(settings))) for _ in range(2)]

        assert_equal(*ends)

    @pytest.mark.parametrize("size", [1, 3, 17])
    def test_ensemble_equals_members_bitwise(self, name, settings, size):
        """Each member of an ensemble of any size, with its own rates, gets the bits that it gets alone."""
        optimiser = built(name, settings)
        members = [(tensors(seed), optimiser.init(tensors(seed), values_of(settings, 1 + seed))) for seed in range(size)]
        params, states = (stacked(part) for part in zip(*members, strict=True))

        def five_steps(params, state, shift):
            for step in range(5):
                gradients = {key: theta + shift + step for key, theta in params.items()}
                params, state = optimiser.update(params, gradients, state)
            return params, state

        shifts = torch.arange(size) / 7
        alone = stacked([five_steps(*member, shift) for member, shift in zip(members, shifts, strict=True)])

        assert_equal(alone, vmap(five_steps)(params, states, shifts))

    def test_rates_are_taken_per_member(self, name, settings):
        """Two members that differ in their rates move differently from the same start."""
        optimiser = built(name, settings)
        ends = [run(optimiser.update, tensors(0), optimiser.init(tensors(0), values_of(settings, by)))[0]["a"] for by in (1, 2)]

        assert per_member(type(settings))
        assert not torch.equal(*ends)

    def test_state_survives_the_disk(self, name, settings):
        """A state saved and loaded as safetensors goes on with the same bits; no two of its tensors share memory."""
        optimiser = built(name, settings)
        first = optimiser.init(tensors(0), values_of(settings))
        started = pytree.tree_map(torch.clone, (tensors(0), first))
        for params, state in (started, run(optimiser.update, tensors(0), first)):
            leaves, structure = pytree.tree_flatten(pytree.tree_map(torch.clone, state))
            read = load(save({str(index): leaf for index, leaf in enumerate(leaves)}))
            again = pytree.tree_unflatten([read[str(index)] for index in range(len(leaves))], structure)

            expected = run(optimiser.update, pytree.tree_map(torch.clone, params), state)
            assert_equal(expected, run(optimiser.update, params, again))

    def test_keeps_the_type_of_the_parameters(self, name, settings):
        """Parameters in float64 stay in float64, and float32 in float32."""
        optimiser = built(name, settings)
        for dtype in (torch.float32, torch.float64):
            params = {key: value.to(dtype) for key, value in tensors(0).items()}
            gradients = pytree.tree_map(torch.clone, params)
            moved, _ = optimiser.update(params, gradients, optimiser.init(params, values_of(settings)))

            assert {value.dtype for value in moved.values()} == {dtype}

    def test_clip_norm_is_handed_on(self, name, settings):
        """A norm in the settings reaches the engine through the contract; "off" is None."""
        clipped = type(settings)(clip_norm=0.5)

        assert (built(name, settings).clip_norm, built(name, clipped).clip_norm) == (None, 0.5)


@pytest.mark.parametrize(("name", "settings"), [case for case in cases() if built(*case.values).alone is not None])
class TestAlone:
    """The form for one member under no transform."""

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_equals_the_update_but_for_rounding(self, name, settings, dtype):
        """Twenty steps end where those of `update` end, to a few units in the last place."""
        optimiser = built(name, settings)

        def ended(update):
            params = {key: value.to(dtype) for key, value in tensors(0).items()}
            state = optimiser.init(pytree.tree_map(torch.clone, params), values_of(settings))
            for step in range(20):
                gradients = {key: value.to(dtype) for key, value in tensors(100 + step).items()}
                params, state = update(params, gradients, state)
            return params, state

        alone, together = ended(optimiser.alone), ended(optimiser.update)

        rounding = 40 * torch.finfo(dtype).eps
        torch.testing.assert_close(pytree.tree_leaves(alone), pytree.tree_leaves(together), rtol=rounding, atol=rounding)

    def test_views_of_a_stack_get_the_bits_of_single_members(self, name, settings):
        """A member that is a slice of a stack gets the bits that it gets as its own tensors; its neighbours keep theirs."""
        optimiser = built(name, settings)
        members = [(tensors(seed), optimiser.init(tensors(seed), values_of(settings, 1 + seed))) for seed in range(3)]
        whole = stacked(members)
        own = pytree.tree_map(torch.clone, members[1])
        params, state = pytree.tree_map(lambda leaf: leaf[1], whole)

        moved, expected = run(optimiser.alone, params, state), run(optimiser.alone, *own)

        assert_equal(expected, moved)
        for place in (0, 2):
            assert_equal(members[place], pytree.tree_map(lambda leaf, at=place: leaf[at], whole))

    def test_gradients_may_lie_otherwise(self, name, settings):
        """A kernel in channels_last takes a gradient in the usual order as it takes one that lies like itself."""
        optimiser = built(name, settings)
        generator = torch.Generator().manual_seed(1)
        kernel, gradient = (torch.randn(4, 3, 3, 3, generator=generator) for _ in range(2))
        ends = []
        for grad in (gradient.clone(), gradient.clone(memory_format=torch.channels_last)):
            params = {"w": kernel.clone(memory_format=torch.channels_last)}
            moved, _ = optimiser.alone(params, {"w": grad}, optimiser.init(params, values_of(settings)))
            ends.append(moved["w"].contiguous())

        assert torch.equal(*ends)


@pytest.mark.parametrize(("name", "settings"), [case for case in cases() if built(*case.values).stacked is not None])
@pytest.mark.parametrize("spread", [0, 1], ids=["one rate", "rates of their own"])
class TestStacked:
    """The form for stacked members under no transform."""

    def test_equals_each_member_but_for_rounding(self, name, settings, spread):
        """Twenty steps of three members end where each ends by `update`, to a few units in the last place."""
        optimiser = built(name, settings)
        members = [(tensors(seed), optimiser.init(tensors(seed), values_of(settings, 1 + spread * seed))) for seed in range(3)]
        gradients = [[tensors(100 * step + seed) for seed in range(3)] for step in range(20)]

        together = stacked(members)
        for grads in gradients:
            together = optimiser.stacked(together[0], stacked(grads), together[1])
        alone = pytree.tree_map(torch.clone, members)
        for grads in gradients:
            alone = [optimiser.update(params, own, state) for (params, state), own in zip(alone, grads, strict=True)]

        rounding = 40 * torch.finfo(torch.float32).eps
        pairs = (pytree.tree_leaves(each) for each in (together, stacked(alone)))
        torch.testing.assert_close(*pairs, rtol=rounding, atol=rounding)

    def test_members_at_different_steps(self, name, settings, spread):
        """Members that have taken different numbers of steps are each moved by their own."""
        optimiser = built(name, settings)
        members = [(tensors(seed), optimiser.init(tensors(seed), values_of(settings, 1 + spread * seed))) for seed in range(2)]
        members[1] = optimiser.update(members[1][0], tensors(7), members[1][1])
        whole, grads = stacked(members), [tensors(20), tensors(21)]
        expected = [
            optimiser.update(params, own, state)
            for (params, state), own in zip(members, pytree.tree_map(torch.clone, grads), strict=True)
        ]
        found = optimiser.stacked(whole[0], stacked(grads), whole[1])

        rounding = 40 * torch.finfo(torch.float32).eps
        pairs = (pytree.tree_leaves(each) for each in (found, stacked(expected)))
        torch.testing.assert_close(*pairs, rtol=rounding, atol=rounding)
