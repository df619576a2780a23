"""Claims about the folder for what can be had again."""

import os
from pathlib import Path

import pytest

from contilab.disk.cache import cache_folder


class TestCacheFolder:
    """Where downloads are kept."""

    def test_follows_the_environment(self, tmp_path: Path) -> None:
        """CONTILAB_CACHE comes first, then the user's cache folder, then the home."""
        home = {"HOME": str(tmp_path)}

        assert cache_folder({**home, "XDG_CACHE_HOME": "/x", "CONTILAB_CACHE": "/own"}) == Path("/own")
        assert cache_folder({**home, "XDG_CACHE_HOME": "/x"}) == Path("/x/contilab")
        assert cache_folder(home) == tmp_path / ".cache" / "contilab"

    @pytest.mark.parametrize("environ", [{}, {"HOME": "/no/such/home"}])
    def test_works_without_a_home(self, environ: dict[str, str]) -> None:
        """A user without a home gets a folder of their own among the temporary files."""
        assert cache_folder(environ).name == f"contilab-{os.getuid()}"
