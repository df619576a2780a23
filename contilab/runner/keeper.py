"""Keeps checkpoints of an attempt: when one is due, how long one takes, and whether one still fits before the process must end.

Besides the files of the engine each holds what the machine was like, so that a successor knows whether it may go on with the
same threads and the same execution and so with the same bits.
"""

import json
import time
from collections.abc import Callable
from typing import Any

from contilab.engine.watch import Snapshot
from contilab.runner.logging import GroupLog
from contilab.spec.sections import Execution
from contilab.store.claim import Claim

MACHINE = "machine.json"
COST_SHARE = 0.02  # of the time that checkpoints may take at most
FIRST_SECONDS = 0.01  # the first one is taken to last: groups that train for less than half a second get none at a task's end
SPARE_FACTOR = 1.5  # a last checkpoint may take this much longer than the one before


class Keeper:
    """Saves the snapshots of one attempt. *seconds_left*: until this process must have ended, once a stop is asked for."""

    def __init__(
        self,
        claim: Claim,
        log: GroupLog,
        *,
        interval_seconds: float,
        machine: dict[str, Any],
        seconds_left: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.is_whole = True  # whether what is trained are all open runs of the claim; a part of them is no checkpoint
        self._claim = claim
        self._log = log
        self._interval_seconds = interval_seconds
        self._machine = json.dumps(machine).encode()
        self._seconds_left = seconds_left
        self._clock = clock
        self._asked = self._saved = clock()
        self._took_seconds = FIRST_SECONDS

    def is_due(self) -> bool:
        """Tell whether the interval is over; the usual one is longer where checkpoints take more than their share of it.

        An interval below that is the user's word, whatever it costs.
        """
        is_short = self._interval_seconds < Execution().checkpoint_seconds
        return self._wants(max(self._interval_seconds, 0.0 if is_short else self._took_seconds / COST_SHARE))

    def is_due_at_task_end(self) -> bool:
        """Tell whether a task that ends now is worth a checkpoint: always, but where tasks are shorter than their share."""
        return self._wants(self._took_seconds / COST_SHARE)

    def fits(self) -> bool:
        """Tell whether one more checkpoint may be written though the attempt ends: it is still ours and there is time."""
        is_ours = self.is_whole and not self._claim.is_superseded()
        self._asked = self._clock()
        return is_ours and SPARE_FACTOR * self._took_seconds < self._seconds_left()

    def save(self, snapshot: Snapshot) -> None:
        """Write *snapshot*. One that the disk refuses is told of, and training goes on; the next one raises OSError."""
        refused = self._claim.save_checkpoint(snapshot.step, {**snapshot.files, MACHINE: self._machine})
        self._saved = self._clock()
        self._took_seconds = self._saved - self._asked
        if refused:
            self._log.log("checkpoint_failed", level="warning", step=snapshot.step, error=str(refused))
        else:
            facts = {"step": snapshot.step, "seconds": round(self._took_seconds, 3)}
            self._log.log("checkpoint", level="debug", bytes=sum(map(len, snapshot.files.values())), **facts)

    def _wants(self, seconds: float) -> bool:
        self._asked = self._clock()
        return self.is_whole and self._asked - self._saved >= seconds
