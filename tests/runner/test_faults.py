"""Faults of the environment in words."""

import errno
import os

from contilab.errors import DataError, Fault
from contilab.runner.faults import fault_of

NO_SPACE = OSError(errno.ENOSPC, "No space left on device", "out/record.jsonl")
LOST = RuntimeError("CUDA error: unspecified launch failure")


class TestFaultOf:
    """The sentence for people."""

    def test_way_out(self):
        """A full disk says what to do."""
        assert "free space" in fault_of(NO_SPACE, "group 1").hint

    def test_own_errors_speak_for_themselves(self):
        """An error of ours keeps its place and hint."""
        error = DataError("mnist", "not there", hint="set CONTILAB_DATA")

        assert fault_of(error, "group 1") == error.faults[0]

    def test_lost_device(self):
        """A lost device is named in one sentence."""
        assert fault_of(LOST, "group 1").problem == "the device failed: CUDA error: unspecified launch failure"

    def test_another_disk_error(self):
        """A disk error without advice of its own is told with its file, if that is known, and still has a way out."""
        told = Fault("group 1", "I/O error (EIO)", "look at the disk, then run again")

        assert fault_of(OSError(errno.EIO, "I/O error"), "group 1") == told
        assert fault_of(OSError(errno.EIO, "I/O error", "a.json"), "group 1") == told._replace(place="a.json")

    def test_full_disk(self):
        """A full disk is named with the file that did not fit and with what is free."""
        fault = fault_of(NO_SPACE, "group 1")

        assert fault.place == "out/record.jsonl"
        assert fault.problem.startswith("No space left on device, ")
        assert fault.problem.endswith(" MiB free")

    def test_target_of_another_user(self, tmp_path, monkeypatch):
        """Where a rename was denied because of its target, the target is named."""
        (tmp_path / "own").mkdir()
        monkeypatch.setattr("contilab.runner.faults.os.access", lambda path, _: path.name == "own")
        error = PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "own/a"), None, str(tmp_path / "results/a"))

        assert fault_of(error, "group 1").place == str(tmp_path / "results/a")

    def test_folder_that_may_not_be_searched(self, monkeypatch, tmp_path):
        """The owner of the nearest folder is named, though the folders below it cannot be looked into."""
        reachable = str(tmp_path)
        monkeypatch.setattr("os.stat", _refusing(below=reachable))
        fault = fault_of(PermissionError(13, "Permission denied", f"{reachable}/home/bin/python"), "")

        assert f"{reachable} belongs to uid" in fault.problem

    def test_file_of_another_user(self, tmp_path):
        """Where the rights are missing, both users are named, and how to start as the right one."""
        fault = fault_of(PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "none")), "group 1")

        assert fault.place == str(tmp_path / "none")
        assert f"{tmp_path} belongs to uid {os.getuid()}, own uid {os.getuid()}" in fault.problem
        assert "user:" in fault.hint


def _refusing(below):
    """Return an os.stat that may not look into what lies below the folder *below*."""
    real = os.stat

    def stat(path, *args, **options):
        if str(path).startswith(f"{below}/"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **options)

    return stat
