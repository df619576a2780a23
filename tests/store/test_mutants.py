"""Claims about the tests: each known way to get the protocol wrong is caught by the test that is named for it.

A copy of the package is changed in one place and the named tests run against it, in a process of their own.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import contilab

ROOT = Path(__file__).parents[2]
PACKAGE = Path(contilab.__file__).parent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Mutant(NamedTuple):
    """A fault: *edits* (file, text, its replacement), and the tests that must fail because of it."""

    name: str
    edits: tuple[tuple[str, str, str], ...]
    tests: tuple[str, ...]


LOOK_THEN_RENAME = """    import time

    if os.path.lexists(path):
        return read_bytes(path) == data
    time.sleep(0.005)
    temp.rename(path)
    return True
    try:
        path.hardlink_to(temp)
"""
PIECEWISE = """        final.mkdir()
        (temp / MANIFEST).rename(final / MANIFEST)
        for path in list(temp.iterdir()):
            path.rename(final / path.name)
        temp.rmdir()
"""
BY_TIME = """            import time

            return time.time() - path.stat().st_mtime > self._ttl_s
            beat = beginning(path, READ_BYTES)"""
BY_NUMBER = """            beat = beginning(path, READ_BYTES)
            try:
                import json

                os.kill(json.loads(beat)["pid"], 0)
            except ProcessLookupError:
                return True
"""

MUTANTS = (
    Mutant(
        "publish removes the tree, then renames",
        (
            (
                "disk/publish.py",
                "        temp.rename(final)\n",
                "        shutil.rmtree(final, True)\n        temp.rename(final)\n",
            ),
            ("disk/publish.py", "import os\n", "import os\nimport shutil\n"),
        ),
        ("store/test_kill.py::TestPause::test_past_its_fence_without_locks",),
    ),
    Mutant(
        "claim looks, then renames",
        (("disk/put_new.py", "    try:\n        path.hardlink_to(temp)\n", LOOK_THEN_RENAME),),
        ("store/test_race.py::TestRace::test_one_group[no flock-disk]",),
    ),
    Mutant(
        "put_new replaces",
        (("disk/put_new.py", "        path.hardlink_to(temp)\n", "        temp.rename(path)\n"),),
        ("store/test_race.py::TestRace::test_one_group[no flock-disk]",),
    ),
    Mutant(
        "the place of a result is made beforehand",
        (
            (
                "store/claim.py",
                "        path = self._layout.out(self.gid, self.n) / rid\n",
                "        make_dir(self._layout.result(rid))\n        path = self._layout.out(self.gid, self.n) / rid\n",
            ),
        ),
        ("store/test_kill.py::TestKill::test_at_each_place[flock-disk]",),
    ),
    Mutant(
        "the manifest arrives before the files",
        (("disk/publish.py", "        temp.rename(final)\n", PIECEWISE),),
        ("store/test_crash.py::TestCrash::test_at_each_call",),
    ),
    Mutant(
        "files are not flushed before the rename",
        (
            ("disk/publish.py", "        os.fsync(file.fileno())\n        return {", "        return {"),
            ("disk/sync.py", "            os.fsync(file.fileno())\n", ""),
        ),
        ("store/test_crash.py::TestCrash::test_at_each_call",),
    ),
    Mutant(
        "stale by file time",
        (
            (
                "store/observer.py",
                "            beat = beginning(path, READ_BYTES)",
                BY_TIME,
            ),
        ),
        ("store/test_trouble.py::TestClock::test_nothing_is_stolen_early",),
    ),
    Mutant(
        "stale by process number",
        (
            ("store/heartbeat.py", '{"runner": runner}', '{"runner": runner, "pid": os.getpid()}'),
            ("store/observer.py", "            beat = beginning(path, READ_BYTES)", BY_NUMBER.rstrip("\n") + "  #"),
            ("store/observer.py", "from collections.abc", "import os\nfrom collections.abc"),
        ),
        ("store/test_namespaces.py::TestNamespaces::test_living",),
    ),
    Mutant(
        "the successor continues in the directory of its predecessor",
        (
            ("store/claim.py", "return self._layout.work(self.gid, self.n)", "return self._layout.work(self.gid, 1)"),
            ("store/claim.py", "self._layout.out(self.gid, self.n)", "self._layout.out(self.gid, 1)"),
            (
                "store/heartbeat.py",
                "        write_synced(self._path, self._content())\n",
                "        self._path.unlink(missing_ok=True)\n        write_synced(self._path, self._content())\n",
            ),
            (
                "store/claim.py",
                "            write_synced(directory / name, data)\n",
                "            (directory / name).write_bytes(data)\n",
            ),
        ),
        ("store/test_kill.py::TestPause::test_at_each_place[put_new.written-flock-disk]",),
    ),
    Mutant(
        "attempts are counted from .end only",
        (("store/generation.py", "return self.is_open or (not self.is_reset and", "return (not self.is_reset and"),),
        ("store/test_poison.py::TestPoison::test_others_finish[KILL]",),
    ),
    Mutant(
        "the group is the unit of the address",
        (("plan/enqueue.py", "known.taken | grouped", "frozenset()"),),
        ("plan/test_enqueue.py::TestPlan::test_two_more_seeds",),
    ),
    Mutant(
        "types are lost in the canonical form",
        (
            (
                "spec/canonical.py",
                "            return value + 0.0 ",
                "            return int(value) if value.is_integer() else value ",
            ),
        ),
        ("spec/test_canonical.py::TestCanonical::test_four_different_values", "spec/test_golden.py"),
    ),
    Mutant(
        "only Timeout of a lock is caught",
        (("disk/lock.py", "        except OSError as error:  # Timeout", "        except Timeout as error:  # Timeout"),),
        ("disk/test_lock.py::TestLock::test_read_only_file_system",),
    ),
    Mutant(
        "handlers come after torch",
        (
            ("cli/main.py", "    _end_on_signals(_exit_at_once)\n", ""),
            ("cli/main.py", "    _end_on_signals(_exit_now)\n", ""),
            (
                "cli/run.py",
                "    with stop_on_signals()",
                '    say(f"store: {store.absolute()}")\n    import torch\n\n    with stop_on_signals()',
            ),
        ),
        ("cli/test_processes.py::TestSignals::test_sigterm_at_the_start",),
    ),
)


def tried(tests, folder):
    """Run *tests* against the package in *folder* and return the finished process."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1", "PYTEST_ADDOPTS": ""}
    names = [str(ROOT / "tests" / test) for test in tests]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "slow or not slow", "-p", "no:cacheprovider", *names]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=280)


@pytest.fixture
def package(tmp_path):
    """A copy of the package."""
    return Path(shutil.copytree(PACKAGE, tmp_path / "contilab", ignore=shutil.ignore_patterns("__pycache__")))


class TestMutants:
    """The suite catches each fault."""

    @pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
    def test_caught(self, package, mutant):
        """With the fault in the package the named test fails, by its own claim and not for want of the package."""
        for file, old, new in mutant.edits:
            text = (package / file).read_text()
            assert old in text, f"{file} no longer holds {old!r}"
            (package / file).write_text(text.replace(old, new))
        done = tried(mutant.tests, package.parent)

        assert done.returncode == 1, done.stdout[-3000:]
        assert re.search(r"[0-9]+ failed", done.stdout), done.stdout[-3000:]

    def test_unchanged(self, package):
        """Without a fault the same tests pass against the copy."""
        done = tried(sorted({test for mutant in MUTANTS for test in mutant.tests}), package.parent)

        assert done.returncode == 0, done.stdout[-3000:]
