"""Claims about how long an idle runner waits."""

import pytest

from contilab.store.pauses import Pauses


@pytest.fixture
def without_jitter(monkeypatch):
    """Let the pauses be their means."""
    monkeypatch.setattr("contilab.store.pauses.random.uniform", lambda low, high: (low + high) / 2)


class TestPauses:
    """Pauses grow while nothing changes."""

    def test_doubling(self, without_jitter):
        """From a quarter of a second each is twice as long as the one before, up to the longest."""
        pauses = Pauses(5.0)

        assert [pauses.seconds() for _ in range(8)] == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0]

    def test_change(self, without_jitter):
        """What is seen again changes nothing; what is new begins with a short pause."""
        pauses = Pauses(5.0)
        found = []
        for seen in ("a", "a", "a", "b", "b", "a"):
            pauses.note(seen)
            found.append(pauses.seconds())

        assert found == [0.25, 0.5, 1.0, 0.25, 0.5, 0.25]

    def test_begin_anew(self, without_jitter):
        """A claim that was won begins anew too."""
        pauses = Pauses(5.0)
        pauses.seconds()
        pauses.begin_anew()

        assert pauses.seconds() == 0.25

    def test_short_ttl(self, without_jitter):
        """No pause is longer than the longest, not even the first."""
        pauses = Pauses(0.1)

        assert [pauses.seconds() for _ in range(3)] == [0.1] * 3

    def test_jitter(self):
        """Two runners that saw the same change do not come back at the same moment."""
        found = [Pauses(5.0).seconds() for _ in range(50)]

        assert len(set(found)) > 10
        assert 0.75 * 0.25 <= min(found) <= max(found) <= 1.25 * 0.25
