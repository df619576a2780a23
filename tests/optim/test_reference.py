"""SGD and Adam take the steps of torch.optim."""

import pytest
import torch

from contilab.optim import adam, sgd
from contilab.spec.fields import values_per_member

CASES = [
    pytest.param(sgd, torch.optim.SGD, {}, id="sgd"),
    pytest.param(sgd, torch.optim.SGD, {"momentum": 0.9}, id="sgd-momentum"),
    pytest.param(sgd, torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}, id="sgd-nesterov-decay"),
    pytest.param(sgd, torch.optim.SGD, {"weight_decay": 0.1}, id="sgd-decay"),
    pytest.param(adam, torch.optim.Adam, {}, id="adam"),
    pytest.param(adam, torch.optim.Adam, {"weight_decay": 0.01, "eps": 1e-4}, id="adam-decay"),
    pytest.param(adam, torch.optim.Adam, {"beta1": 0.0, "beta2": 0.5}, id="adam-betas"),
]


def gradient(theta, step):
    """Return the gradient of a function that is neither convex nor the same in every step."""
    return torch.sin(3 * theta) + 0.1 * theta + 0.05 * ((step % 7) - 3)


def ours(module, settings, dtype, lr):
    """Return the parameters after fifty steps of this package's optimiser."""
    make = {sgd: sgd.sgd, adam: adam.adam}[module]
    own = module.Settings(lr=lr, **settings)
    optimiser = make(own)
    params = {"w": start(dtype)}
    state = optimiser.init(params, values_per_member(own))
    for step in range(50):
        params, state = optimiser.update(params, {"w": gradient(params["w"], step)}, state)
    return params["w"]


def theirs(reference, settings, dtype, lr):
    """Return the parameters after fifty steps of torch's optimiser."""
    options = dict(settings)
    if reference is torch.optim.Adam:
        options["betas"] = (options.pop("beta1", 0.9), options.pop("beta2", 0.999))
    theta = start(dtype).requires_grad_()
    optimiser = reference([theta], lr=lr, foreach=False, **options)
    for step in range(50):
        theta.grad = gradient(theta.detach(), step)
        optimiser.step()
    return theta.detach()


def start(dtype):
    """Return the parameters before the first step."""
    return torch.linspace(-2, 2, 23, dtype=dtype)


class TestReference:
    """Fifty steps beside torch.optim."""

    @pytest.mark.parametrize(("module", "reference", "settings"), CASES)
    def test_fifty_steps_in_float64(self, module, reference, settings):
        """Fifty steps end within 1e-12 of torch's; the rest is the order of rounding."""
        expected = theirs(reference, settings, torch.float64, 0.03)

        torch.testing.assert_close(ours(module, settings, torch.float64, 0.03), expected, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize(("module", "reference", "settings"), CASES)
    def test_fifty_steps_in_float32(self, module, reference, settings):
        """In float32 fifty steps end within 1e-5, some hundred roundings, of torch's."""
        expected = theirs(reference, settings, torch.float32, 0.03)

        torch.testing.assert_close(ours(module, settings, torch.float32, 0.03), expected, rtol=1e-5, atol=1e-5)


class TestAdam:
    """What the float32 arithmetic of Adam has to keep."""

    def test_first_step_is_exact_in_float32(self):
        """The first step is the learning rate within rounding; 1 - 0.999 in float32 would make it wrong by 6e-6 of itself."""
        optimiser = adam.adam(adam.Settings())
        params = {"w": torch.zeros(1)}
        moved, _ = optimiser.update(params, {"w": torch.ones(1)}, optimiser.init(params, {"lr": 0.01, "weight_decay": 0.0}))

        torch.testing.assert_close(moved["w"], torch.tensor([-0.01]), rtol=5e-7, atol=0)


class TestSettings:
    """What settings refuse."""

    def test_nesterov_needs_momentum(self):
        """Nesterov without momentum is refused with both settings in the message."""
        with pytest.raises(ValueError, match="nesterov = true needs momentum above 0"):
            sgd.Settings(nesterov=True)
