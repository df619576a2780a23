"""Claims about errors of the operating system in words."""

import errno

import pytest

from contilab.disk.reason import reason


class TestReason:
    """The sentence without its file."""

    @pytest.mark.parametrize(
        ("error", "told"),
        [
            (OSError(errno.EROFS, "Read-only file system", "a.json"), "Read-only file system (EROFS)"),
            (OSError(1234, "unheard of"), "unheard of (1234)"),
            (OSError("no number"), "no number"),
        ],
    )
    def test_of_every_error(self, error, told):
        """It has the name of the number, the number where that has none, and is what was said where there is no number."""
        assert reason(error) == told
