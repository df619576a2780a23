"""Replacing a file in one step: a reader sees the old content or the new one, never a part."""

from pathlib import Path

from contilab.disk.put_new import temp_beside
from contilab.disk.sync import make_dir, sync_dir, write_synced


def replace(path: Path, data: bytes) -> None:
    """Give *path* the content *data*, whatever it held, and make that durable; OSError if it cannot be written."""
    make_dir(path.parent)
    temp = temp_beside(path)
    try:
        write_synced(temp, data)
        temp.replace(path)
    finally:
        temp.unlink(missing_ok=True)
    sync_dir(path.parent)
