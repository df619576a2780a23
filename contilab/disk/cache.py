"""Where contilab keeps what can be had again, outside of any store."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return CONTILAB_CACHE, or `contilab` in the user's cache.

    A user without an account or home (a container started under a bare uid) gets a folder among the temporary files.
    """
    if own := environ.get("CONTILAB_CACHE"):
        return Path(own)
    if xdg := environ.get("XDG_CACHE_HOME"):
        return Path(xdg) / "contilab"
    home = environ.get("HOME", "")
    if home and os.access(home, os.W_OK):
        return Path(home) / ".cache" / "contilab"
    return Path(tempfile.gettempdir()) / f"contilab-{os.getuid()}"
