"""Workers that the kernel kills for lack of memory, seen from their parent."""

import signal

import pytest

from contilab.runner import workers as workers_module
from contilab.runner.order import Order
from contilab.runner.progress import Lines
from contilab.runner.signals import StopFlag
from contilab.runner.staff import Staff
from contilab.runner.workers import Workers, halved


class Dead:
    """A worker that ended with *code* while it trained *members*."""

    number, verdict, groups = 0, None, 1

    def __init__(self, code, members):
        self.code, self.members = code, members

    def ended(self):
        """Return how it ended."""
        return self.code


@pytest.fixture
def bury(monkeypatch, tmp_path):
    """Return a function that lets a parent find a dead worker, and returns what its successor is to train at once."""
    kills = [0]
    monkeypatch.setattr(workers_module, "oom_kills", lambda: kills[0])
    crew = Workers(Order(tmp_path), Staff(2, "asked for"), StopFlag(), Lines())
    orders = []
    monkeypatch.setattr(crew, "_start", lambda _number: orders.append(crew._order))

    def find(code, members, *, killed):
        kills[0] += killed
        worker = Dead(code, members)
        crew._crew[0] = worker
        crew._bury(worker)
        return orders[-1].most

    return find


class TestBuried:
    """What becomes of the next worker."""

    def test_half_as_many_each_time(self, bury):
        """Each kill for lack of memory halves what is trained at once, down to one run."""
        assert [bury(-signal.SIGKILL, 12, killed=1) for _ in range(5)] == [6, 3, 1, 1, 1]

    def test_other_deaths(self, bury):
        """A kill by somebody else, and a crash, change nothing, even if the kernel killed something else meanwhile."""
        assert bury(-signal.SIGKILL, 12, killed=0) is None
        assert bury(-signal.SIGSEGV, 12, killed=1) is None

    def test_one_run(self, bury):
        """A group of one run cannot be halved."""
        assert bury(-signal.SIGKILL, 1, killed=1) is None

    def test_of_a_smaller_group(self, tmp_path):
        """A worker that died with fewer runs than were allowed sets the mark lower."""
        assert halved(Order(tmp_path, most=16), 8).most == 4
        assert halved(Order(tmp_path, most=4), 8).most == 2
