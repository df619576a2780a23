"""How much space things of the store take."""

import os
from pathlib import Path

from contilab.spec.study import Study
from contilab.store.store import Store
from contilab.store.target import groups_of


def tree_bytes(path: Path) -> int:
    """Return the size in bytes of all files at and below *path*; what vanishes meanwhile counts as nothing."""
    try:
        if path.is_symlink() or not path.is_dir():
            return path.lstat().st_size
        with os.scandir(path) as entries:
            return sum(tree_bytes(Path(entry.path)) for entry in entries)
    except OSError:
        return 0


def study_bytes(store: Store, study: Study) -> int:
    """Return the bytes of the results of *study* and of the work on its groups. What studies share counts for each of them."""
    rids = set(study.rids)
    results = sum(tree_bytes(store.result_dir(rid)) for rid in rids)
    return results + sum(tree_bytes(store.layout.works / gid) for gid in groups_of(store, rids))
