"""The engine under a claim: it is told when to stop and when to save, and goes on from a checkpoint where there is one."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import psutil  # type: ignore[import-untyped]  # it ships no types

from contilab.engine.environment import environment
from contilab.engine.room import Room
from contilab.engine.train import train
from contilab.engine.watch import Progress, Watch
from contilab.errors import CheckpointMismatch
from contilab.hardware.memory import Free, free_device_memory, free_memory
from contilab.hardware.neighbours import Neighbours
from contilab.hardware.profile import Profiles, user_folder
from contilab.records.outcome import Outcome
from contilab.runner.keeper import Keeper
from contilab.runner.logging import GroupLog
from contilab.runner.parts import Split
from contilab.runner.progress import Display
from contilab.runner.resumption import Resumptions
from contilab.spec.run import Run
from contilab.store.claim import Claim

WORKER = "contilab.runner.worker"  # in the command line of each worker of several
SECONDS, FALLBACK, SPLIT = "compile_seconds", "compile_fallback", "memory_split"  # entries of env.json


class Training:
    """Trains the runs of one claim, all together or in parts. *stop*: whether this process is to end.

    *share*: processes that share this machine.
    """

    def __init__(
        self,
        claim: Claim,
        log: GroupLog,
        shown: Display,
        begins: Resumptions,
        *,
        stop: Callable[[], bool],
        seconds_left: Callable[[], float],
        share: int = 1,
    ) -> None:
        self._claim = claim
        self._log = log
        self._shown = shown
        self._begins = begins
        self._begin = begins.newest()
        self._stop = stop
        self._seconds_left = seconds_left
        self._profiles = Profiles(claim.hardware_dir, user_folder(os.environ))
        self._neighbours = Neighbours(_top())
        self._share = share
        self._room = Room(self._free)
        self._compiled: dict[str, Any] = {}

    def train(self, part: Sequence[Run], is_last: bool) -> list[Outcome]:  # noqa: FBT001  as `in_parts` calls it
        """Train *part*; checkpoints are kept only of the last one, since one of a part would hide those of all others."""
        begin = self._begin
        keeper = Keeper(
            self._claim,
            self._log,
            interval_seconds=begin.resources.execution.checkpoint_seconds,
            machine=begin.machine,
            seconds_left=self._seconds_left,
        )
        keeper.is_whole = is_last
        self._compiled = {SECONDS: 0.0, FALLBACK: None}
        try:
            with self._neighbours:
                return train(
                    part,
                    begin.resources.execution,
                    self._watch(keeper),
                    resume=begin.files,
                    profiles=self._profiles,
                    room=self._room,
                )
        except CheckpointMismatch as error:
            if begin.files is None:
                raise
            reason = str(error)
        self._begin = self._begins.before(begin, reason)
        return self.train(part, is_last)

    def choices(self, part: Sequence[Run], split: Split | None, planned: int) -> dict[str, Any]:
        """Return what *part* of *planned* runs was trained with, and why; *split*: why they are not all."""
        resources = self._begin.resources
        return {
            **environment(part, resources.execution, self._profiles),
            **self._compiled,
            **resources.choices,
            SPLIT: None if split is None else {"asked": planned, "value": len(part), **split.facts},
            "foreign_cores": round(self._neighbours.cores, 2),  # that other processes used meanwhile
        }

    def _watch(self, keeper: Keeper) -> Watch:
        return Watch(
            progress=self._progress,
            stop=lambda: self._stop() or self._claim.is_superseded() or self._claim.is_cancelled(),
            log=self._details,
            save=keeper.save,
            is_due=keeper.is_due,
            is_due_at_task_end=keeper.is_due_at_task_end,
            saves_on_stop=keeper.fits,
        )

    def _progress(self, progress: Progress) -> None:
        self._claim.tell(step=progress.step, steps=progress.steps, samples_per_second=progress.samples_per_second)
        self._shown.step(progress)

    def _free(self, device: str) -> Free:
        return free_memory(self._share, _top()) if device == "cpu" else free_device_memory(device)

    def _details(self, event: str, **facts: Any) -> None:
        if event == "compiled":
            self._compiled[SECONDS] = round(self._compiled[SECONDS] + facts["seconds"], 3)
        if event == "compile_failed":
            self._compiled[FALLBACK] = facts["reason"]
        level = "info" if event == "resumed" else "debug"
        self._log.log(event, **{"level": level, **facts})


def _top() -> int:
    """Return the process at the top of this `contilab run`: workers of one run are no neighbours to each other."""
    is_worker = any(WORKER in word for word in psutil.Process().cmdline())
    return os.getppid() if is_worker else os.getpid()
