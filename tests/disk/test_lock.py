"""Claims about the lock, which saves work and never carries correctness."""

import contextlib
import errno
import fcntl
import os
import signal
import subprocess
import sys
import time

import pytest

from contilab.disk import lock as lock_module
from contilab.disk.lock import Lock
from contilab.errors import StoreError

HOLDER = """
import os, sys, time
from pathlib import Path
from contilab.disk.lock import Lock
lock = Lock(Path(sys.argv[1]))
print(lock.acquire(), flush=True)
if sys.argv[2:] == ["fork"] and os.fork() == 0:
    time.sleep(30)
    os._exit(0)
time.sleep(30)
"""


@pytest.fixture
def path(tmp_path):
    """The file of the lock."""
    return tmp_path / "group.lock"


@pytest.fixture
def holder(path):
    """Start a process that holds the lock; end it with its children afterwards."""
    started = []

    def start(*arguments):
        command = [sys.executable, "-c", HOLDER, str(path), *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def failing_flock(number):
    """Return a flock that fails with errno *number*."""

    def flock(fd, operation):
        raise OSError(number, os.strerror(number))

    return flock


def acquired_within(path, seconds):
    """Whether the lock can be had within *seconds*."""
    lock = Lock(path)
    answer = lock.acquire(seconds)
    lock.release()
    return answer == "held"


class TestLock:
    """`Lock.acquire` answers held, busy or without."""

    def test_excludes(self, path):
        """While one holds it, another hears busy; after the release it is free."""
        first, second = Lock(path), Lock(path)

        answers = [first.acquire(), second.acquire()]
        first.release()
        answers.append(second.acquire())
        second.release()

        assert answers == ["held", "busy", "held"]

    def test_file_stays(self, path):
        """Releasing keeps the file: deleting it would let two processes hold two files of one name."""
        lock = Lock(path)
        lock.acquire()
        inode = path.stat().st_ino
        lock.release()

        assert path.stat().st_ino == inode
        assert not lock.is_held

    @pytest.mark.parametrize("arguments", [(), ("fork",)])
    def test_freed_by_a_kill(self, path, holder, arguments):
        """A killed holder frees it at once, even if a forked child outlives it."""
        process = holder(*arguments)
        before = Lock(path).acquire()
        process.kill()
        process.wait()

        assert before == "busy"
        assert acquired_within(path, 2.0)

    def test_held_while_paused(self, path, holder):
        """A stopped holder keeps it: its peers must not wait for ever, and that is their duty."""
        process = holder()
        process.send_signal(signal.SIGSTOP)

        assert Lock(path).acquire() == "busy"

    @pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.ESTALE])
    def test_goes_on_where_locks_do_not_work(self, path, monkeypatch, number):
        """Where flock fails, the answer is to go on without, and no soft lock appears."""
        monkeypatch.setattr(fcntl, "flock", failing_flock(number))

        assert Lock(path).acquire() == "without"
        assert path.read_bytes() == b""

    def test_file_of_another_user(self, path, monkeypatch):
        """A lock file that may not be opened (another uid's in a sticky directory) is no reason to stop."""

        def refused(*arguments, **keywords):
            raise PermissionError(errno.EACCES, "permission denied")

        monkeypatch.setattr(os, "open", refused)

        assert Lock(path).acquire() == "without"

    def test_read_only_file_system(self, path, monkeypatch):
        """A read-only file system refuses the start, since nothing could be recorded."""

        def read_only(*arguments, **keywords):
            raise OSError(errno.EROFS, "read-only file system")

        monkeypatch.setattr(os, "open", read_only)

        with pytest.raises(StoreError, match="read-only"):
            Lock(path).acquire()

    def test_silent_lock_server(self, path, monkeypatch):
        """A call that never answers is left behind after a bounded wait; got late, the lock is given back."""
        monkeypatch.setattr(lock_module, "ANSWER_SECONDS", 0.1)
        flock = fcntl.flock

        def slow(fd, operation):
            if not operation & fcntl.LOCK_UN:
                time.sleep(0.5)
            return flock(fd, operation)

        monkeypatch.setattr(fcntl, "flock", slow)
        started = time.monotonic()
        answer = Lock(path).acquire()
        waited = time.monotonic() - started
        monkeypatch.setattr(fcntl, "flock", flock)

        assert answer == "without"
        assert waited < 0.4
        assert acquired_within(path, 2.0)
