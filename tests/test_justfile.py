"""The justfile: the everyday commands of the project."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def recipes() -> dict[str, list[str]]:
    """Return the comment lines directly above each recipe."""
    found: dict[str, list[str]] = {}
    above: list[str] = []
    for line in (ROOT / "justfile").read_text().splitlines():
        if re.match(r"[a-z][a-z-]*[^:]*:$", line):
            found[re.split(r"[ :]", line)[0]] = above
        above = [*above, line] if line.startswith("#") else []
    return found


class TestJustfile:
    """One comment per recipe, the agreed names."""

    def test_has_one_comment_per_recipe(self) -> None:
        """Each recipe has exactly one line of comment, which `just --list` shows."""
        assert {name: len(comment) for name, comment in recipes().items() if len(comment) != 1} == {}

    def test_is_read_by_just(self) -> None:
        """Just itself finds the nine recipes."""
        just = Path(sys.executable).with_name("just")
        if not just.exists():
            pytest.skip("just is not installed beside this Python")
        names = subprocess.run([just, "--summary"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()

        assert names == sorted(recipes())
        assert set(names) == {"demo", "test", "check", "plan", "run", "report", "bench", "image", "image-cuda"}
