"""What a control group allows, read from folders that look like the kernel's."""

from pathlib import Path

import pytest

from contilab.hardware.limits import Limits, limits, memory_bytes


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
