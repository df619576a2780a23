"""What tells one machine from another."""

import pytest

from contilab.hardware import fingerprint as fingerprint_module
from contilab.hardware.fingerprint import machine, this_machine

CPUINFO = "processor\t: 0\nmodel name\t: Fast 9000\nflags\t\t: avx2 fma\n\nprocessor\t: 1\nmodel name\t: Fast 9000\n"


@pytest.fixture
def cpuinfo(tmp_path):
    """What the system says of its processors."""
    file = tmp_path / "cpuinfo"
    file.write_text(CPUINFO)
    return file


@pytest.fixture
def cards(tmp_path):
    """The folder in which the driver describes a GPU."""
    (tmp_path / "gpus" / "0000:00:1e.0").mkdir(parents=True)
    (tmp_path / "gpus" / "0000:00:1e.0" / "information").write_text("Model: \t\t NVIDIA H200\nIRQ: 1\n")
    return tmp_path / "gpus"


class TestMachine:
    """A machine and the version of torch on it."""

    def test_facts(self, cpuinfo, cards):
        """Processor, cores, memory and GPUs are named, and the version of torch is that of its package."""
        found = machine(cpuinfo, cards)

        assert (found.facts["cpu"], found.facts["devices"]) == ("Fast 9000", ["NVIDIA H200"])
        assert found.facts["cores"] >= 1
        assert found.torch[0].isdigit()

    def test_the_same_again(self, cpuinfo, tmp_path):
        """Asked twice it is the same machine; the order of its flags says nothing."""
        first = machine(cpuinfo, tmp_path / "none").fingerprint
        cpuinfo.write_text(CPUINFO.replace("avx2 fma", "fma avx2"))

        assert machine(cpuinfo, tmp_path / "none").fingerprint == first
        assert this_machine() is this_machine()

    @pytest.mark.parametrize("change", ["model", "flags", "cores", "memory", "gpu"])
    def test_another_machine(self, cpuinfo, cards, tmp_path, monkeypatch, change):
        """Another processor, other instruction sets, cores allowed, memory or GPU: another machine."""
        first = machine(cpuinfo, cards).fingerprint
        match change:
            case "model":
                cpuinfo.write_text(CPUINFO.replace("9000", "9001"))
            case "flags":
                cpuinfo.write_text(CPUINFO.replace("fma", "fma amx_bf16"))
            case "cores":
                monkeypatch.setattr(fingerprint_module, "thread_budget", lambda **_: type("Threads", (), {"count": 63}))
            case "memory":
                monkeypatch.setattr(fingerprint_module, "memory_bytes", lambda: 2**30)
            case "gpu":
                cards = tmp_path / "none"

        assert machine(cpuinfo, cards).fingerprint != first
