"""The nearest thing that is there to a path that need not be."""

import os
from pathlib import Path


def nearest_there(path: Path) -> Path:
    """Return *path* if it is there, else the nearest of its parents that is.

    What lies below a folder that may not be searched, and a link to nothing, count as not there.
    """
    # not Path.exists: it raises where a folder on the way may not be searched
    return next(one for one in (path, *path.absolute().parents) if os.path.exists(one))  # noqa: PTH110
