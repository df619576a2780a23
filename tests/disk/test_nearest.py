"""Claims about what is there of a path."""

from pathlib import Path

from contilab.disk.nearest import nearest_there


class TestNearestThere:
    """The nearest thing that is there."""

    def test_path_and_parents(self, tmp_path, monkeypatch):
        """It is the path itself, a file that lies in its way, or the first folder that is there; a link to nothing is not."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "file").touch()
        (tmp_path / "link").symlink_to("nothing")

        assert nearest_there(tmp_path / "file") == tmp_path / "file"
        assert nearest_there(tmp_path / "file" / "new") == tmp_path / "file"
        assert nearest_there(tmp_path / "link" / "new") == tmp_path
        assert nearest_there(Path("new") / "new") == tmp_path
