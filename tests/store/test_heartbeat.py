"""Claims about the beat and the owner's look at itself."""

import json
import time

import pytest

from contilab.store import heartbeat as heartbeat_module
from contilab.store.heartbeat import BEAT_BYTES, Heartbeat


@pytest.fixture
def heartbeat(tmp_path):
    """Make heartbeats of 0.05 s; stop them afterwards."""
    made = []

    def make(*, is_followed=lambda: False, ttl_s=1.0, beat_s=0.05):
        path = tmp_path / "beat"
        made.append(Heartbeat(path, runner="one", ttl_s=ttl_s, beat_s=beat_s, is_followed=is_followed))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def eventually(condition):
    """Wait until *condition* is true, 10 s at most: a busy disk may be slow."""
    stop = time.monotonic() + 10
    while not condition() and time.monotonic() < stop:
        time.sleep(0.01)
    return condition()


def beats(path, count):
    """Wait for *count* different contents of *path* and return them."""
    seen = {}
    assert eventually(lambda: seen.setdefault(path.read_bytes()) or len(seen) >= count)
    return list(seen)


class TestHeartbeat:
    """A thread writes a fresh value again and again."""

    def test_changes(self, heartbeat, tmp_path):
        """Each beat differs from the last, has the same length and is readable."""
        heartbeat().start()

        seen = beats(tmp_path / "beat", 3)

        assert {len(beat) for beat in seen} == {BEAT_BYTES}
        assert {json.loads(beat)["runner"] for beat in seen} == {"one"}

    def test_tells(self, heartbeat, tmp_path):
        """What the owner tells is in the next beat."""
        one = heartbeat()
        one.start()
        one.tell(step=3, steps=10, samples_per_second=2.5)

        assert eventually(lambda: "step" in json.loads((tmp_path / "beat").read_bytes()))
        beat = json.loads((tmp_path / "beat").read_bytes())
        assert (beat["step"], beat["steps"], beat["samples_per_second"]) == (3, 10, 2.5)

    def test_soon_at_first(self, heartbeat, tmp_path, monkeypatch):
        """The first beats come sooner than *beat_s*, so that a group of seconds is seen at work."""
        monkeypatch.setattr(heartbeat_module, "FIRST_SECONDS", 0.01)
        heartbeat(ttl_s=800.0, beat_s=100.0).start()

        assert len(beats(tmp_path / "beat", 3)) == 3

    def test_stops(self, heartbeat, tmp_path):
        """After the stop nothing is written."""
        one = heartbeat()
        one.start()
        one.stop()
        last = (tmp_path / "beat").read_bytes()
        time.sleep(0.2)

        assert (tmp_path / "beat").read_bytes() == last

    def test_never_made_anew(self, heartbeat, tmp_path):
        """A beat whose file is gone is not created again: the owner is superseded."""
        one = heartbeat()
        one.start()
        (tmp_path / "beat").unlink()

        assert eventually(one.is_lost)
        assert not (tmp_path / "beat").exists()

    def test_follower_is_noticed(self, heartbeat):
        """A higher generation is noticed with the next beat."""
        one = heartbeat(is_followed=lambda: True)
        one.start()

        assert eventually(one.is_lost)

    def test_looks_after_a_gap(self, heartbeat, monkeypatch):
        """After a gap the owner looks before it goes on, even if the thread has not woken up yet; without a gap it does not."""
        now, looks = [0.0], []
        monkeypatch.setattr(heartbeat_module, "boottime", lambda: now[0])
        one = heartbeat(is_followed=lambda: bool(looks.append(1)) or len(looks) > 1, ttl_s=10.0, beat_s=1.0)
        lost = [one.is_lost()]
        for seconds in (7.9, 8.1, 8.2, 30.0):
            now[0] = seconds
            lost.append(one.is_lost())

        assert lost == [False, False, False, False, True]
        assert len(looks) == 2

    def test_survives_a_fault(self, heartbeat, tmp_path, monkeypatch):
        """A beat that fails is tried again with the next one."""
        one, write, faults = heartbeat(), Heartbeat._write, []

        def faulty(self):
            if not faults:
                faults.append(1)
                raise OSError(5, "input/output error")
            write(self)

        monkeypatch.setattr(Heartbeat, "_write", faulty)
        one.start()

        assert len(beats(tmp_path / "beat", 3)) == 3
        assert faults == [1]
