"""How long a store takes for large studies: 10,000 runs are planned and looked at, beside the same files written plainly.

    python tests/bench/store.py [--seeds 1250] [--place DIR]

Printed: seconds of `plan` and of `status`, and the ratio of `plan` to the same bytes written into as many files, each made
durable, in the same run; what the disk does counts in both. Measured on two Xeon cores and ext4: plan 8.3 s, 0.28 times the
same files written plainly, status 0.17 s.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from contilab.plan.enqueue import enqueue
from contilab.store.status import study_status
from contilab.store.store import open_store

NAMES = 'preset = ["split_mnist_class", "synthetic_task"]\nmethod = ["naive", "joint", "ewc", "er"]'


def files_below(root: Path) -> dict[Path, bytes]:
    """Return the content of every file below *root*."""
    return {path.relative_to(root): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def written_plainly(files: dict[Path, bytes], root: Path) -> None:
    """Write *files* below *root*, each made durable, with nothing else of what a store does."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def timed(function: Callable[[], object]) -> float:
    """Return the seconds that *function* takes."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def main() -> None:
    """Plan, look, write plainly, and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1250, help="of eight cells; default %(default)s, 10,000 runs")
    parser.add_argument(
        "--place", type=Path, help="a directory on the disk in question; default the system's for temporary files"
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.place) as scratch:
        root = Path(scratch) / "store"
        planned = timed(lambda: enqueue(root, f'name = "a"\n[matrix]\n{NAMES}\nseed = {list(range(asked.seeds))}'))
        store = open_store(root)
        study = store.study("a")
        seen = timed(lambda: study_status(store, study))
        files = files_below(root)
        plain = timed(lambda: written_plainly(files, Path(scratch) / "plain"))
    sys.stdout.write(
        f"{len(study.rids)} runs, {len(files)} files: plan {planned:.1f} s, {planned / plain:.2f} times the same files written "
        f"plainly ({plain:.1f} s); status {seen:.2f} s\n"
    )


if __name__ == "__main__":
    main()
