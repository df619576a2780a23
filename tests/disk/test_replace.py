"""Claims about replacing a file in one step."""

import pytest

from contilab.disk.replace import replace


class TestReplace:
    """What lies at the name afterwards."""

    def test_gives_new_content(self, tmp_path):
        """A file that was there holds the new content, and nothing lies beside it."""
        path = tmp_path / "new" / "file"
        replace(path, b"old")
        replace(path, b"new")

        assert path.read_bytes() == b"new"
        assert [one.name for one in path.parent.iterdir()] == ["file"]

    def test_leaves_the_old_where_the_new_does_not_fit(self, tmp_path, monkeypatch):
        """A disk that fills up on the way costs the new content only: the old stays, and no half file beside it."""
        path = tmp_path / "file"
        replace(path, b"old")

        def full(_handle):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space"):
            replace(path, b"new")

        assert path.read_bytes() == b"old"
        assert [one.name for one in tmp_path.iterdir()] == ["file"]
