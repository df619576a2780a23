"""Claims about disks that are full, read-only or another user's while runners work, as real mounts, limits and users."""

import os
import subprocess

import pytest

from contilab.store.generation import generation


@pytest.fixture
def tmpfs(tmp_path):
    """Mount a tmpfs of a size; skip where mounting is not allowed."""
    place = tmp_path / "small"
    place.mkdir()

    def mount(size):
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("mounting a tmpfs is not permitted here")
        return place

    yield mount
    subprocess.run(["umount", "-l", place], check=False, capture_output=True)


@pytest.fixture
def worked(start_worker):
    """Let a process work on a store and return what it did."""

    def work(planned, *arguments, under=()):
        worker = start_worker("--pause", "0.05", *arguments, under=under)
        worker.wait_until_ready()
        worker.send(planned.root)
        return worker.answer()

    return work


def ends(planned):
    """Return how each attempt at the first group ended, None where it has no end, and whether it is charged."""
    layout, found = planned.store.layout, []
    while layout.claim(planned.gids[0], len(found) + 1).exists():
        found.append(generation(layout, planned.gids[0], len(found) + 1))
    return [one.end_kind for one in found], [one.is_charged for one in found]


class TestFull:
    """A disk without space ends attempts, not groups."""

    def test_full(self, tmpfs, planned_at, worked, check):
        """On a full disk the reserve takes the last words; at most one attempt looks like a crash; with space all goes on."""
        place = tmpfs("2m")
        planned = planned_at(place / "store", members=20)
        filler = place / "filler"
        with filler.open("wb", buffering=0) as file:
            free = os.statvfs(place).f_bavail * 4096
            file.write(bytes(free - 136 * 1024))  # the reserve of a runner and some small files still fit
        first = worked(planned)
        state = ends(planned)
        filler.unlink()
        answer = worked(planned)

        assert first["faults"] > 0
        assert state[0][0] == "env"
        assert sum(state[1]) <= 1
        assert check(planned, [answer], all_told=False) == []

    @pytest.mark.parametrize("limit", [48, 2000])
    def test_limit(self, plan, worked, check, limit):
        """A limit on the size of files, met by the first beat or by a result, is a fault of the environment too."""
        planned = plan(members=2)
        first = worked(planned, "--largest-file", str(limit))
        _, charged = ends(planned)
        answer = worked(planned)

        assert first["faults"] == 3
        assert not any(charged)
        assert check(planned, [answer], all_told=False) == []


class TestForeign:
    """A store of another user."""

    def test_other_user(self, plan, worked, check):
        """A user who may not write claims nothing; nothing is charged, and the owner's runner finishes."""
        if os.getuid() != 0:
            pytest.skip("needs root to become another user")
        planned = plan(members=2)
        # it may read everything, so that the interpreter starts wherever it lies
        reads = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
        under = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *reads)
        if subprocess.run([*under, "true"], capture_output=True, check=False).returncode:
            pytest.skip("setpriv may not keep a capability here")
        first = worked(planned, under=under)
        claims = ends(planned)
        answer = worked(planned)

        assert (first["faults"], first["claims"]) == (3, [])
        assert claims == ([], [])
        assert check(planned, [answer]) == []
