"""Claims about staleness on the observer's own clock."""

import errno
import os

import pytest

from contilab.store.observer import Observer


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.seconds = 100.0

    def __call__(self):
        """Return the seconds."""
        return self.seconds


@pytest.fixture
def clock():
    """A clock that is set by hand."""
    return Clock()


@pytest.fixture
def beat(tmp_path):
    """A beat."""
    path = tmp_path / "beat"
    path.write_bytes(b"1")
    return path


def looks(observer, clock, path, times):
    """Return what the observer says of *path* at each of *times*."""
    said = []
    for seconds in times:
        clock.seconds = 100.0 + seconds
        said.append(observer.is_stale(path))
    return said


class TestObserver:
    """Stale is: the same bytes for one TTL, in at least three good reads."""

    def test_after_one_ttl(self, clock, beat):
        """One TTL after the first look, not before."""
        assert looks(Observer(10, clock=clock), clock, beat, [0, 5, 9.9, 10]) == [False, False, False, True]

    def test_three_reads(self, clock, beat):
        """However long ago the first look was, two reads are no proof."""
        assert looks(Observer(10, clock=clock), clock, beat, [0, 1000, 1001]) == [False, False, True]

    def test_a_change_starts_again(self, clock, beat):
        """A beat that changed is watched for another TTL."""
        observer = Observer(10, clock=clock)
        said = looks(observer, clock, beat, [0, 5, 9])
        beat.write_bytes(b"2")
        said += looks(observer, clock, beat, [11, 20, 21])

        assert said == [False, False, False, False, False, True]

    def test_directory_instead_of_a_beat(self, clock, tmp_path):
        """What is no beat at all is none, so that nobody waits for it for ever."""
        assert looks(Observer(10, clock=clock), clock, tmp_path, [0, 5, 10]) == [False, False, True]

    def test_huge(self, clock, beat):
        """A beat that is a huge file is not read whole."""
        os.truncate(beat, 2**40)

        assert looks(Observer(10, clock=clock), clock, beat, [0, 5, 10]) == [False, False, True]

    def test_no_beat_yet(self, clock, tmp_path):
        """A missing beat is a good read."""
        assert looks(Observer(10, clock=clock), clock, tmp_path / "none", [0, 5, 10]) == [False, False, True]

    @pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
    def test_faults_are_no_reads(self, clock, beat, monkeypatch, number):
        """A disk that does not answer proves nothing."""
        observer = Observer(10, clock=clock)
        said = looks(observer, clock, beat, [0])

        def faulty(path, at_most):
            raise OSError(number, "fault")

        with monkeypatch.context() as patch:
            patch.setattr("contilab.store.observer.beginning", faulty)
            said += looks(observer, clock, beat, [5, 10, 15])
        said += looks(observer, clock, beat, [20, 21])

        assert said == [False, False, False, False, False, True]
