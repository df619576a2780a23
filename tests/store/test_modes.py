"""Claims about stores that several users share."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SCRIPT = """
import os, sys
from pathlib import Path
from contilab.store.cancel import cancel
from contilab.store.claimer import Claimer
from contilab.store.retry import retry
from contilab.store.store import open_store
become()
store = open_store(Path(sys.argv[1]))
store.add_runner("one", {"host": "laptop"})
claimer = Claimer(store, runner="one", versions={})
claims = [claimer.claim_next(), claimer.claim_next()]
for step in (1, 2, 3):
    claims[0].save_checkpoint(step, {"state": b"1"})
claims[0].end("released")
with claims[1] as claim:
    claim.put_files(claim.rids[0], {"numbers": b"1"})
    claim.publish({claim.rids[0]: "finished"}, frozenset())
cancel(store, "study")
retry(store, "study")
claimer.claim_next().checkpoint()
os._exit(0)
"""
FOLLOW = """
import sys
from pathlib import Path
from contilab.store.claimer import Claimer
from contilab.store.store import open_store
become()
with Claimer(open_store(Path(sys.argv[1])), runner="two", versions={}).claim_next() as claim:
    claim.save_checkpoint(9, {"state": b"9"})
    print(claim.n, claim.checkpoint()[:3], flush=True)
os._exit(0)
"""
# the imports come first: the interpreter itself may be out of reach for other users
BECOME = "import codecs, os\ncodecs.lookup('ascii')\ndef become():\n    os.umask(0o002)\n"
BECOME_USER = f"{BECOME}    os.setgroups([])\n    os.setgid(4321)\n    os.setuid({{uid}})\n"


def work(script, root, uid=None):
    """Let a process of its own run *script* on the store with umask 002, as user *uid* if given; return what it said."""
    program = (BECOME if uid is None else BECOME_USER.format(uid=uid)) + script
    done = subprocess.run([sys.executable, "-c", program, root], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def modes(root):
    """Return the permission bits of everything in the store, by kind of thing."""
    found = {"file": set(), "directory": set()}
    for path in root.rglob("*"):
        kind = "directory" if path.is_dir() else "file"
        found[kind].add(stat.S_IMODE(path.stat().st_mode))
    return found


@pytest.fixture
def shared(plan):
    """A store that a process with umask 002 planned."""
    before = os.umask(0o002)
    yield plan(groups=2)
    os.umask(before)


class TestModes:
    """The umask alone decides who may read and write."""

    def test_group_writable(self, shared):
        """With umask 002 every file and directory that planning, training, cancelling and retrying make is group-writable."""
        said = work(SCRIPT, shared.root)

        assert said == ""
        assert modes(shared.root) == {"file": {0o664}, "directory": {0o775}}

    def test_group_of_the_directory(self, plan, tmp_path):
        """In a directory with the setgid bit everything below inherits it, so that all belongs to the shared group."""
        root = tmp_path / "store0"
        root.mkdir()
        root.chmod(0o2775)
        planned = plan(groups=2)
        work(SCRIPT, planned.root)

        assert all(path.stat().st_mode & stat.S_ISGID for path in root.rglob("*") if path.is_dir())

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can work as two other users")
    def test_two_users(self, shared):
        """A second user of the group follows the first, takes its checkpoint over, and goes on."""
        with tempfile.TemporaryDirectory() as place:  # pytest's own directories are closed to other users
            root = Path(place) / "store"
            root.parent.chmod(0o755)
            shutil.copytree(shared.root, root)
            for path in (root, *root.rglob("*")):
                os.chown(path, 12345, 4321)
                path.chmod(0o2775 if path.is_dir() else 0o664)
            said = [work(SCRIPT, root, 12345), work(FOLLOW, root, 12346)]

        assert said == ["", "4 (9, {'state': b'9'}, 4)\n"]
