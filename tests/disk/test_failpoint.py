"""Claims about failpoints."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import contilab
from contilab.disk import failpoint as failpoint_module

SCRIPT = """
from contilab.disk.failpoint import failpoint
for number in range(3):
    failpoint("place.other")
    failpoint("place.armed")
    print(number, flush=True)
"""


def run(value):
    """Run the script with the variable set to *value*."""
    environment = {**os.environ, failpoint_module.VARIABLE: value}
    return subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)


class TestFailpoint:
    """One environment variable arms one place."""

    @pytest.mark.parametrize(("value", "printed"), [("place.armed:KILL", ""), ("place.armed:KILL:3", "0\n1\n")])
    def test_kills_at_the_passage(self, value, printed):
        """The process ends at the armed passage of the armed place, the first one unless told."""
        done = run(value)

        assert (done.returncode, done.stdout) == (-signal.SIGKILL, printed)

    @pytest.mark.parametrize("value", ["", "place.armed", "place.none:KILL", "place.armed:NONSENSE"])
    def test_unarmed(self, value):
        """Anything else leaves the process alone."""
        done = run(value)

        assert (done.returncode, done.stdout) == (0, "0\n1\n2\n")

    def test_stop_is_one_shot(self):
        """A process that was stopped and continued runs to its end."""
        environment = {**os.environ, failpoint_module.VARIABLE: "place.armed:STOP"}
        process = subprocess.Popen([sys.executable, "-c", SCRIPT], env=environment, stdout=subprocess.PIPE, text=True)
        _, state = os.waitpid(process.pid, os.WUNTRACED)
        process.send_signal(signal.SIGCONT)
        output, _ = process.communicate()

        assert os.WIFSTOPPED(state)
        assert (process.returncode, output) == (0, "0\n1\n2\n")

    def test_every_place_is_listed(self):
        """The places named in the code are those that the list of the module explains."""
        sources = Path(contilab.__file__).parent.rglob("*.py")
        used = {name for source in sources for name in re.findall(r'failpoint\("([a-z_.]+)"\)', source.read_text())}
        listed = set(re.findall(r"^([a-z_]+\.[a-z_]+) ", failpoint_module.__doc__, flags=re.MULTILINE))

        assert used == listed
