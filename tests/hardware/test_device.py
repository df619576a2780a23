"""A device is checked before anything starts."""

import warnings

import pytest
import torch

from contilab.errors import DeviceError, UsageError
from contilab.hardware.device import choose_device, cuda_devices, use_device


class TestChooseDevice:
    """From the word that was asked for to a device."""

    @pytest.mark.parametrize(
        ("asked", "present", "value"),
        [("cpu", 2, "cpu"), ("auto", 0, "cpu"), ("auto", 2, "cuda:0"), ("cuda", 1, "cuda:0"), ("cuda:1", 2, "cuda:1")],
    )
    def test_choice(self, asked, present, value):
        """The first CUDA device is taken where there is one and nothing else was asked for."""
        choice = choose_device(asked, count=lambda: present)

        assert choice.value == value
        assert choice.reason

    @pytest.mark.parametrize(("asked", "present"), [("cuda", 0), ("cuda:0", 0), ("cuda:2", 2)])
    def test_device_that_is_not_there(self, asked, present):
        """A device that does not exist is refused with the way out, exit code 4."""
        with pytest.raises(DeviceError) as caught:
            choose_device(asked, count=lambda: present)

        assert caught.value.exit_code == 4
        assert "cpu" in caught.value.faults[0].hint

    @pytest.mark.parametrize("asked", ["gpu", "cuda:", "cuda:-1", "CPU", "", "cuda:1x"])
    def test_another_word(self, asked):
        """Another word is a fault of the user, exit code 2."""
        with pytest.raises(UsageError):
            choose_device(asked, count=lambda: 1)

    def test_what_torch_sees(self):
        """The number of CUDA devices comes from torch and is never negative."""
        assert cuda_devices() >= 0


class TestUseDevice:
    """How a GPU computes; what torch is told is looked at, since machines without one can be told too."""

    @pytest.fixture(autouse=True)
    def _rounding(self):
        """Let fp32 be rounded, as some images ask, and let torch be as it was afterwards."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.deterministic
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
            yield
            torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.deterministic = before

    def test_what_is_called_fp32_is_fp32(self, monkeypatch):
        """Factors of products and convolutions are not rounded, bits are the same each time, and the GPU is the current one."""
        used = []
        monkeypatch.setattr(torch.cuda, "set_device", used.append)
        use_device("cuda:1")

        assert used == ["cuda:1"]
        assert not torch.backends.cudnn.allow_tf32
        assert not torch.backends.cuda.matmul.allow_tf32
        assert torch.backends.cudnn.deterministic
