"""Whose fault an exception is."""

import errno

import pytest

from contilab.errors import DataError, EnvironmentFault, StoreError
from contilab.store.ending import is_environment, is_lost_device

NO_SPACE = OSError(errno.ENOSPC, "No space left on device", "out/record.jsonl")
LOST = RuntimeError("CUDA error: unspecified launch failure")


class TestIsEnvironment:
    """The line between environment and training."""

    @pytest.mark.parametrize(
        "error",
        [
            NO_SPACE,
            OSError(errno.EROFS, "Read-only file system"),
            PermissionError(errno.EACCES, "Permission denied"),
            LOST,
            DataError("mnist", "not there"),
            StoreError("store", "the file system is read-only"),
            EnvironmentFault("store", "gone"),
        ],
    )
    def test_environment(self, error):
        """Disk, data and device are the environment."""
        assert is_environment(error)

    @pytest.mark.parametrize(
        "error",
        [
            ValueError("bad shape"),
            RuntimeError("CUDA out of memory"),
            RuntimeError("CUDA error: out of memory"),
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            FileNotFoundError(errno.ENOENT, "No such file"),
            MemoryError(),
        ],
    )
    def test_training(self, error):
        """Everything else is charged to the group; so is memory, which a smaller group may have."""
        assert not is_environment(error)

    def test_lost_device(self):
        """Only a lost device makes every further group pointless."""
        assert is_lost_device(LOST)
        assert not is_lost_device(NO_SPACE)
