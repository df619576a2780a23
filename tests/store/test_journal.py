"""Claims about the log that an attempt writes as it goes."""

import shutil

import pytest

from contilab.store.journal import Journal, lines


@pytest.fixture
def places(tmp_path):
    """Where the two files are."""
    (tmp_path / "work").mkdir()
    return tmp_path / "work" / "log.jsonl", tmp_path / "work" / "log.older.jsonl"


class TestJournal:
    """Lines are there at once, and not more than fit."""

    def test_at_once(self, places):
        """A line is in the file when `append` returns: a process that is killed then leaves it."""
        Journal(*places).append(b"one\n")

        assert places[0].read_bytes() == b"one\n"

    def test_order(self, places):
        """Lines come back in their order, of both files."""
        journal = Journal(*places, limit_bytes=20)
        for number in range(6):
            journal.append(b"line %d\n" % number)

        assert lines(*places) == [b"line 2", b"line 3", b"line 4", b"line 5"]

    def test_bounded(self, places):
        """However long an attempt is, its log takes no more than two times the limit, and the newest lines stay."""
        journal = Journal(*places, limit_bytes=1000)
        for number in range(500):
            journal.append(b"%030d\n" % number)

        assert sum(path.stat().st_size for path in places) <= 2000
        assert lines(*places)[-1] == b"%030d" % 499

    def test_directory_gone(self, places):
        """A working directory that was collected is not made anew, and nobody is troubled."""
        journal = Journal(*places)
        shutil.rmtree(places[0].parent)
        journal.append(b"one\n")

        assert lines(*places) == []
        assert not places[0].parent.exists()

    def test_something_else(self, places):
        """Where no file can be written nothing is."""
        places[0].mkdir()
        Journal(*places).append(b"one\n")

        assert lines(*places) == []
