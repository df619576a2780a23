"""When checkpoints are written, and what becomes of one that the disk refuses."""

import errno
import json
from types import SimpleNamespace

import pytest

from contilab.engine.watch import Snapshot
from contilab.runner.keeper import MACHINE, Keeper

SNAPSHOT = Snapshot(7, {"state.json": b"{}"})


class Bench:
    """A keeper with a clock that is set by hand, a claim that takes *took* seconds to save, and a log."""

    def __init__(self, interval=60.0, left=8.0):
        self.now = 0.0
        self.took = 1.0
        self.refused = None
        self.is_lost = False
        self.saved = {}
        self.log = []
        claim = SimpleNamespace(save_checkpoint=self._save, is_superseded=lambda: self.is_lost)
        log = SimpleNamespace(log=lambda event, **facts: self.log.append((event, facts.get("level", "info"))))
        self.keeper = Keeper(
            claim,
            log,
            interval_seconds=interval,
            machine={"fingerprint": "f"},
            seconds_left=lambda: left,
            clock=lambda: self.now,
        )

    def _save(self, step, files):
        self.now += self.took
        self.saved[step] = files
        return self.refused

    def at(self, now):
        """Set the clock and return the keeper."""
        self.now = now
        return self.keeper


class TestDue:
    """When a checkpoint is due."""

    def test_interval(self):
        """It is due once per interval."""
        bench = Bench()

        assert not bench.at(59).is_due()
        assert bench.at(60).is_due()
        bench.keeper.save(SNAPSHOT)
        assert not bench.at(120).is_due()
        assert bench.at(121).is_due()

    @pytest.mark.parametrize(("interval", "expected"), [(60.0, False), (10.0, True)])
    def test_costly(self, interval, expected):
        """Where one takes more than its share of the usual interval they get rarer; a shorter interval is the user's word."""
        bench = Bench(interval)
        bench.took = 6.0
        bench.at(60).is_due()
        bench.keeper.save(SNAPSHOT)

        assert bench.at(66 + 299).is_due() == expected
        assert bench.at(66 + 300).is_due()

    def test_short_tasks(self):
        """At the end of a task one is due, unless tasks are so short that it would take more than its share."""
        bench = Bench()

        assert bench.at(1).is_due_at_task_end()
        bench.keeper.save(SNAPSHOT)
        assert not bench.at(2 + 49).is_due_at_task_end()
        assert bench.at(2 + 50).is_due_at_task_end()

    def test_part_of_a_group(self):
        """While only a part of the open runs is trained none is due: it would hide the one of all."""
        bench = Bench(interval=0)
        bench.keeper.is_whole = False

        assert not bench.at(100).is_due()
        assert not bench.keeper.is_due_at_task_end()
        assert not bench.keeper.fits()


class TestFits:
    """Whether one more fits before the end."""

    @pytest.mark.parametrize(("took", "fits"), [(5.0, True), (5.4, False)])
    def test_time(self, took, fits):
        """It must fit into the time that is left, half as much again as the one before took."""
        bench = Bench(left=8.0)
        bench.took = took
        bench.at(60).is_due()
        bench.keeper.save(SNAPSHOT)

        assert bench.keeper.fits() == fits

    def test_lost(self):
        """A group that another runner has taken over gets none."""
        bench = Bench()
        bench.is_lost = True

        assert not bench.keeper.fits()


class TestSave:
    """What is written."""

    def test_files(self):
        """Beside the files of the engine it holds what the machine was like."""
        bench = Bench()
        bench.keeper.save(SNAPSHOT)

        assert bench.saved[7].keys() == {"state.json", MACHINE}
        assert json.loads(bench.saved[7][MACHINE]) == {"fingerprint": "f"}
        assert bench.log == [("checkpoint", "debug")]

    def test_refused(self):
        """One that the disk refuses is told of, and training goes on."""
        bench = Bench()
        bench.refused = OSError(errno.ENOSPC, "No space left on device")
        bench.keeper.save(SNAPSHOT)

        assert bench.log == [("checkpoint_failed", "warning")]
