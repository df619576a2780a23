"""How much space things of the store take."""

import contextlib
import os
from pathlib import Path

from contilab.spec.study import Study
from contilab.store.store import Store
from contilab.store.target import groups_of


def tree_bytes(path: Path) -> int:
    """Return the size in bytes of all files at and below *path*; what vanishes meanwhile counts as nothing."""
    try:
        return path.lstat().st_size if path.is_symlink() or not path.is_dir() else _below(str(path))
    except OSError:
        return 0


def _below(directory: str) -> int:
    size = 0
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                is_dir = entry.is_dir(follow_symlinks=False)
                size += _below(entry.path) if is_dir else entry.stat(follow_symlinks=False).st_size
    return size


def study_bytes(store: Store, study: Study) -> int:
    """Return the bytes of the results of *study* and of the work on its groups. What studies share counts for each of them."""
    rids = set(study.rids)
    results = sum(tree_bytes(store.result_dir(rid)) for rid in rids)
    return results + sum(tree_bytes(store.layout.works / gid) for gid in groups_of(store, rids))
