"""The number of threads follows what the container allows."""

import subprocess
import sys

import pytest

from contilab.hardware.threads import Threads, thread_budget, wait_briefly


@pytest.fixture
def quota(tmp_path):
    """A control group with a quota of 2.5 processors."""
    (tmp_path / "cpu.max").write_text("250000 100000\n")
    (tmp_path / "membership").write_text("0::/\n")
    return {"mount": tmp_path, "membership": tmp_path / "membership"}


class TestThreadBudget:
    """Threads of one process."""

    @pytest.mark.parametrize(("affinity", "workers", "count"), [(8, 1, 3), (2, 1, 2), (8, 2, 1), (8, 3, 1), (8, 9, 1)])
    def test_smaller_of_affinity_and_quota(self, quota, affinity, workers, count):
        """The quota is rounded up, the smaller number counts, and workers share it, at least one each."""
        assert thread_budget(workers, environ={}, affinity=affinity, **quota).count == count

    def test_reason_names_the_numbers(self, quota):
        """The reason tells affinity, quota and workers."""
        threads = thread_budget(2, environ={}, affinity=8, **quota)

        assert threads.reason == "affinity 8, cgroup quota 2.5, shared by 2 workers"

    def test_no_quota(self, tmp_path):
        """Without a quota the affinity counts."""
        threads = thread_budget(environ={}, affinity=4, mount=tmp_path, membership=tmp_path / "none")

        assert threads == Threads(4, "affinity 4, no cgroup quota")

    def test_affinity_of_this_process(self, tmp_path):
        """The affinity is read from the system."""
        assert thread_budget(environ={}, mount=tmp_path, membership=tmp_path / "none").count >= 1

    @pytest.mark.parametrize(
        ("word", "count"),
        [("5", 5), ("5,2", 5), ("0", 3), ("-1", 3), ("9" * 30, 3), ("9" * 5000, 3), ("²", 3), ("many", 3), ("", 3)],
    )
    def test_the_user_wins(self, quota, word, count):
        """OMP_NUM_THREADS is respected where it is a number, whatever the quota."""
        assert (
            thread_budget(4 if word.startswith("5") else 1, environ={"OMP_NUM_THREADS": word}, affinity=8, **quota).count
            == count
        )


class TestWaitBriefly:
    """How idle threads wait."""

    def test_default_and_user(self):
        """Idle threads sleep soon and numpy's own pool has one, but the user's word wins."""
        default: dict[str, str] = {}
        asked = {"OMP_WAIT_POLICY": "ACTIVE", "OPENBLAS_NUM_THREADS": "4"}
        wait_briefly(default)
        wait_briefly(asked)

        assert default == {"GOMP_SPINCOUNT": "3000", "OPENBLAS_NUM_THREADS": "1"}
        assert asked == {"OMP_WAIT_POLICY": "ACTIVE", "OPENBLAS_NUM_THREADS": "4"}


class TestUse:
    """Setting torch up."""

    def test_numbers_without_full_precision_are_zero(self):
        """Products too small for the full precision of their type are zero, in every thread, and so cost no more."""
        code = (
            "import torch\n"
            "from contilab.hardware.threads import use_threads\n"
            "use_threads(2)\n"
            "products = torch.full((1_000_000,), 1e-30) * torch.tensor(1e-10)\n"
            "print(torch.get_num_threads(), int((products != 0).sum()))"
        )
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

        assert told.split() == ["2", "0"]
