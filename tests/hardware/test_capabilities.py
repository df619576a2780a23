"""What is told of the machine and the installed versions."""

import json
import platform
from types import SimpleNamespace

import torch

from contilab.hardware.capabilities import capabilities, cpu_model
from contilab.hardware.versions import versions


class TestCapabilities:
    """Facts about processor and devices."""

    def test_is_plain_data(self):
        """The facts can be written as JSON and name the processor and the kernels of torch."""
        facts = json.loads(json.dumps(capabilities()))

        assert facts["cpu"]["model"]
        assert facts["cpu"]["torch_kernels"]
        assert isinstance(facts["cuda"], list)

    def test_devices(self, monkeypatch):
        """Each CUDA device is named with its memory and compute capability."""
        facts = SimpleNamespace(name="Fast Two", major=9, minor=0, total_memory=2**30)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: facts)

        assert capabilities()["cuda"] == [{"index": 0, "name": "Fast Two", "compute_capability": "9.0", "memory_bytes": 2**30}]

    def test_older_torch(self, monkeypatch):
        """A torch that does not tell instruction sets is no error."""
        monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)

        assert capabilities()["cpu"]["instruction_sets"] == []

    def test_model_of_the_processor(self, tmp_path):
        """The first processor's name counts."""
        file = tmp_path / "cpuinfo"
        file.write_text("processor\t: 0\nmodel name\t: Fast One\nmodel name\t: Other\n")

        assert cpu_model(file) == "Fast One"

    def test_unknown_model(self, tmp_path):
        """Where the system does not tell a name, the architecture stands for it."""
        assert cpu_model(tmp_path / "none") == platform.machine()


class TestVersions:
    """Versions of what is installed."""

    def test_names_what_changes_numbers(self):
        """Python, torch, numpy and contilab itself are always there."""
        assert {"python", "torch", "numpy", "contilab"} <= versions().keys()

    def test_missing_package(self, monkeypatch):
        """A package that is not installed is left out."""
        monkeypatch.setattr("contilab.hardware.versions.PACKAGES", ("contilab", "no-such-package"))

        assert set(versions()) == {"python", "contilab"}
