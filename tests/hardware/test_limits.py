"""What a control group allows, read from folders that look like the kernel's."""

from pathlib import Path

import pytest

from contilab.hardware.limits import Limits, limits, memory_bytes, memory_left, oom_kills


def tree(root: Path, **files: str) -> Path:
    """Write *files* (by path, with `__` for `/` and `~` for a dot) below *root*."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("~", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def membership(tmp_path: Path, text: str) -> Path:
    """Write *text* as the list of groups this process is in."""
    file = tmp_path / "membership"
    file.write_text(text)
    return file


class TestVersion2:
    """One hierarchy for all controllers."""

    def test_quota_and_memory(self, tmp_path):
        """The quota is a fraction of one processor's time, the memory limit is in bytes."""
        mount = tree(tmp_path / "cg", **{"cpu~max": "150000 100000\n", "memory~max": "1048576\n"})

        assert limits(mount, membership(tmp_path, "0::/\n")) == Limits(1.5, 1048576)

    def test_parent_binds(self, tmp_path):
        """A limit of a parent group binds its children."""
        mount = tree(tmp_path / "cg", **{"pod__cpu~max": "50000 100000", "pod__job__cpu~max": "max 100000"})

        assert limits(mount, membership(tmp_path, "0::/pod/job\n")).cpus == 0.5

    def test_max_is_none(self, tmp_path):
        """The word max means that there is no limit."""
        mount = tree(tmp_path / "cg", **{"cpu~max": "max 100000", "memory~max": "max"})

        assert limits(mount, membership(tmp_path, "0::/\n")) == Limits(None, None)


class TestVersion1:
    """One hierarchy per controller."""

    def test_quota_and_memory(self, tmp_path):
        """Quota over period of the cpu controller, and the limit of the memory controller."""
        mount = tree(
            tmp_path / "cg",
            **{
                "cpu,cpuacct__box__cpu~cfs_quota_us": "200000",
                "cpu,cpuacct__box__cpu~cfs_period_us": "100000",
                "memory__box__memory~limit_in_bytes": "4096",
            },
        )

        assert limits(mount, membership(tmp_path, "4:cpu,cpuacct:/box\n3:memory:/box\n")) == Limits(2.0, 4096)

    def test_path_of_the_host(self, tmp_path):
        """Without a cgroup namespace the path is the host's and the mount is already the own group."""
        mount = tree(tmp_path / "cg", **{"cpu__cpu~cfs_quota_us": "100000", "cpu__cpu~cfs_period_us": "100000"})

        assert limits(mount, membership(tmp_path, "4:cpu:/docker/0123\n")).cpus == 1.0

    def test_parent_binds(self, tmp_path):
        """A quota of a parent group binds its children, as a pod's does those of its containers; so does a limit of memory."""
        mount = tree(
            tmp_path / "cg",
            **{
                "cpu__pod__cpu~cfs_quota_us": "150000",
                "cpu__pod__cpu~cfs_period_us": "100000",
                "cpu__pod__box__cpu~cfs_quota_us": "-1",
                "cpu__pod__box__cpu~cfs_period_us": "100000",
                "memory__pod__memory~limit_in_bytes": "4096",
                "memory__pod__box__memory~limit_in_bytes": "8192",
            },
        )

        assert limits(mount, membership(tmp_path, "4:cpu:/pod/box\n3:memory:/pod/box\n0::/\n")) == Limits(1.5, 4096)

    def test_beside_version_2(self, tmp_path):
        """Where both versions are mounted, the smaller quota binds."""
        files = {"cpu__cpu~cfs_quota_us": "200000", "cpu__cpu~cfs_period_us": "100000", "unified__cpu~max": "100000 100000"}
        mount = tree(tmp_path / "cg", **files)

        assert limits(mount, membership(tmp_path, "4:cpu:/\n0::/\n")).cpus == 1.0

    def test_unlimited(self, tmp_path):
        """A quota of -1 and the huge page-rounded number mean that there is no limit."""
        mount = tree(
            tmp_path / "cg",
            **{
                "cpu__cpu~cfs_quota_us": "-1",
                "cpu__cpu~cfs_period_us": "100000",
                "memory__memory~limit_in_bytes": "9223372036854771712",
            },
        )

        assert limits(mount, membership(tmp_path, "4:cpu:/\n3:memory:/\n")) == Limits(None, None)


class TestUnreadable:
    """Nothing to read."""

    @pytest.mark.parametrize("text", ["", "nonsense", "0::/gone\n"])
    def test_is_no_limit(self, tmp_path, text):
        """A system without control groups has no limits."""
        assert limits(tmp_path / "none", membership(tmp_path, text)) == Limits(None, None)

    def test_memory_falls_back_to_the_machine(self, tmp_path):
        """Without a limit the memory is the machine's."""
        assert memory_bytes(tmp_path / "none", tmp_path / "none") > 2**20


class TestMemoryLeft:
    """What control groups leave of the memory."""

    def test_version_2(self, tmp_path):
        """Limit minus use, where page cache that nobody maps is not in use; the tightest level binds."""
        stat = "anon 300\ninactive_file 250\nactive_file 150\nfile_mapped 100\n"
        files = {
            "pod__memory~max": "1000",
            "pod__memory~current": "600",
            "pod__job__memory~max": "900",
            "pod__job__memory~current": "700",
            "pod__job__memory~stat": stat,
        }
        mount = tree(tmp_path / "cg", **files)

        assert memory_left(mount, membership(tmp_path, "0::/pod/job\n")) == 1000 - 600
        assert memory_left(mount / "pod", membership(tmp_path, "0::/job\n")) == 1000 - 600
        assert memory_left(mount / "pod" / "job", membership(tmp_path, "0::/\n")) == 900 - (700 - 300)

    def test_version_1(self, tmp_path):
        """So it is in version 1, whose lines for a group with its children have a prefix."""
        stat = "inactive_file 5\ntotal_inactive_file 50\ntotal_active_file 40\ntotal_mapped_file 30\n"
        mount = tree(
            tmp_path / "cg",
            **{
                "memory__box__memory~limit_in_bytes": "1000",
                "memory__box__memory~usage_in_bytes": "800",
                "memory__box__memory~stat": stat,
            },
        )

        assert memory_left(mount, membership(tmp_path, "3:memory:/box\n0::/\n")) == 1000 - (800 - 60)

    def test_without_a_limit(self, tmp_path):
        """Without a limit there is nothing to tell."""
        mount = tree(tmp_path / "cg", **{"memory~max": "max", "memory~current": "10"})

        assert memory_left(mount, membership(tmp_path, "0::/\n")) is None


class TestOomKills:
    """How often the kernel killed for lack of memory."""

    def test_of_the_own_group(self, tmp_path):
        """Both versions count the kills of a group; that of the own group is told, not the parent's."""
        second = tree(tmp_path / "two", **{"memory~events": "oom 9\noom_kill 7\n", "job__memory~events": "oom 3\noom_kill 2\n"})
        first = tree(tmp_path / "one", **{"memory__memory~oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"})

        assert oom_kills(second, membership(tmp_path, "0::/job\n")) == 2
        assert oom_kills(first, membership(tmp_path, "4:memory:/\n")) == 4

    def test_of_the_machine(self, tmp_path):
        """Where no group counts the machine does, and where that does not either there were none."""
        vmstat = tmp_path / "vmstat"
        vmstat.write_text("nr_free_pages 12\noom_kill 3\n")

        assert oom_kills(tmp_path / "none", membership(tmp_path, "0::/\n"), vmstat) == 3
        assert oom_kills(tmp_path / "none", membership(tmp_path, "0::/\n"), tmp_path / "none") == 0
