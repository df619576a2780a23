"""What is told of the machine and the installed versions."""

import json
import platform

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
