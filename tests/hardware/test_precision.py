"""Which arithmetic is worth measuring, and what is missing where it is not."""

import pytest
import torch

from contilab.hardware.precision import candidates, lacking, lacking_of


class TestLacking:
    """Instruction sets for bf16."""

    @pytest.mark.parametrize(
        ("capabilities", "missing"),
        [
            ({"avx512_f": True}, ("avx512_bf16", "amx_bf16")),
            ({"avx512_bf16": True, "amx_bf16": False}, ()),
            ({"amx_bf16": True}, ()),
            ({}, ("avx512_bf16", "amx_bf16")),
            ({"neon": True, "bf16": True}, ()),
            ({"neon": True, "bf16": False}, ("bf16",)),
        ],
    )
    def test_of_a_processor(self, capabilities, missing):
        """One of the two x86 sets suffices, on ARM its own; without any the names of the missing ones are told."""
        assert lacking_of(capabilities) == missing

    @pytest.mark.parametrize(("has", "offered"), [(True, ("fp32", "bf16")), (False, ("fp32",))])
    def test_candidates(self, monkeypatch, has, offered):
        """Where a set is there, bf16 is worth measuring beside fp32; else it is not."""
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": has}, raising=False)

        assert candidates("cpu") == offered
        assert bool(lacking("cpu")) is not has

    def test_an_older_torch(self, monkeypatch):
        """A torch that does not tell its capabilities is taken to have none."""
        monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)

        assert candidates("cpu") == ("fp32",)
