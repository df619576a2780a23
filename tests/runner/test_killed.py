"""Workers that the kernel kills for lack of memory, seen from their parent."""

import signal
import socket
import threading
from types import SimpleNamespace

import pytest

from contilab.runner import workers as workers_module
from contilab.runner.channel import Channel, Messages
from contilab.runner.order import Most, Order
from contilab.runner.progress import Lines
from contilab.runner.signals import StopFlag
from contilab.runner.staff import Staff
from contilab.runner.workers import Workers, halved


class Alive:
    """A worker that goes on, and what it is told."""

    number = 1

    def __init__(self):
        self.messages, self.told = self, []

    def nudge(self, most=None):
        """Note how many runs it may train at once."""
        self.told.append(most)


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
        """Each kill for lack of memory halves what was trained at once, down to one run."""
        assert [bury(-signal.SIGKILL, members, killed=1) for members in (12, 6, 3)] == [6, 3, 1]

    def test_as_large_as_each_other(self, bury):
        """Workers that are killed with as many runs each are followed by half as many, however many of them there were."""
        assert [bury(-signal.SIGKILL, 8, killed=1) for _ in range(3)] == [4, 4, 4]

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
        assert halved(Order(tmp_path, most=4), 6).most == 3
        assert halved(Order(tmp_path, most=2), 8).most == 2


class TestOthers:
    """What the other workers are told."""

    def test_all_train_fewer(self, monkeypatch, tmp_path):
        """They are told before they look for the group of the dead one, and keep to the smallest number they were told."""
        monkeypatch.setattr(workers_module, "oom_kills", iter(range(9)).__next__)
        crew = Workers(Order(tmp_path), Staff(2, "asked for"), StopFlag(), Lines())
        monkeypatch.setattr(crew, "_start", lambda _number: None)
        dead, other = Dead(-signal.SIGKILL, 12), Alive()
        dead.follow, dead.end = lambda: True, None
        dead.messages = SimpleNamespace(is_open=False)
        crew._crew = {0: dead, 1: other}
        key = SimpleNamespace(data=dead)
        monkeypatch.setattr(crew, "_selector", SimpleNamespace(select=lambda _: [(key, 0)], unregister=lambda _: None))
        crew._look()

        assert other.told == [6]

    @pytest.mark.parametrize(("told", "kept"), [([6, 3], 3), ([3, 6], 3), ([], None)])
    def test_over_the_channel(self, told, kept):
        """The number arrives with the word to look again, and only becomes smaller."""
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        most, looks = Most(), threading.Semaphore(0)
        with ours, theirs:
            listener = threading.Thread(target=Channel(theirs)._listen, args=(looks.release, most.lower), daemon=True)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("os.kill", lambda *_: None)
                listener.start()
                for runs in [*told, None]:
                    Messages(ours).nudge(runs)
                assert looks.acquire(timeout=10)
                ours.shutdown(socket.SHUT_RDWR)
                listener.join(10)

        assert most.runs == kept
