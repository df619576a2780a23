"""Replacing a file in one step: a reader sees the old content or the new one, never a part."""

import os
from pathlib import Path

from contilab.disk.put_new import temp_beside
from contilab.disk.sync import make_dir, sync_dir, write_synced
from contilab.errors import EnvironmentFault


def replace(path: Path, data: bytes) -> None:
    """Give *path* the content *data*; EnvironmentFault if its folder cannot be written."""
    temp = temp_beside(path)
    try:
        make_dir(path.parent)
        try:
            write_synced(temp, data)
            temp.replace(path)
        finally:
            temp.unlink(missing_ok=True)
        sync_dir(path.parent)
    except OSError as error:
        problem = f"it cannot be written: {os.strerror(error.errno or 0)}"
        raise EnvironmentFault(str(path), problem, hint="name another folder with --out DIR") from error
