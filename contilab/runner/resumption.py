"""What an attempt begins with: the newest checkpoint of its group, and the choices it was trained with.

On a machine with the same fingerprint they are kept, so that the numbers are those of an attempt that was never interrupted,
to the bit. Elsewhere everything is chosen anew, and the result says so. A checkpoint that is damaged, or that the engine cannot
go on with, is passed over for the one before it; the log says so at each step, and the result names all of them.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from contilab.engine.checkpoint import circumstances_of
from contilab.errors import CheckpointMismatch
from contilab.runner.keeper import MACHINE
from contilab.runner.logging import GroupLog
from contilab.runner.resources import Resources, kept, use_threads_of
from contilab.runner.sidecars import fingerprint
from contilab.store.checkpoint import Checkpoint
from contilab.store.claim import Claim

RESUMED = "resumed"  # the entry of env.json where steps were trained in other circumstances
PASSED_OVER = "checkpoints_passed_over"  # the entry of env.json where a checkpoint was damaged or refused


class Resumption(NamedTuple):
    """The *files* of a snapshot (None: begin anew), and what to train with. *machine*: what checkpoints from now on name.

    *found*: where the files come from.
    """

    files: Mapping[str, bytes] | None
    resources: Resources
    machine: dict[str, Any]
    found: Checkpoint | None = None


class Resumptions:
    """Where an attempt may begin, the newest first. *resources*: what this machine gives an attempt that begins anew."""

    def __init__(self, claim: Claim, resources: Resources, log: GroupLog) -> None:
        self._claim = claim
        self._resources = resources
        self._log = log
        self._passed_over: list[dict[str, str]] = []

    def newest(self) -> Resumption:
        """Return where the attempt begins."""
        return self._first_of(self._claim.checkpoint())

    def before(self, refused: Resumption, reason: str) -> Resumption:
        """Return the one before *refused*, which cannot be gone on with because of *reason*."""
        return self._first_of(self._refuse(refused.found, reason) if refused.found else None)

    def _first_of(self, found: Checkpoint | None) -> Resumption:
        self._tell_of_damaged(found)
        while found:
            try:
                return self._resumption(found)
            except (CheckpointMismatch, ValueError, KeyError, TypeError) as error:
                found = self._refuse(found, str(error))
        return self._anew()

    def _refuse(self, refused: Checkpoint, reason: str) -> Checkpoint | None:
        found = self._claim.checkpoint_before(refused)
        self._log.log("checkpoint_refused", level="warning", step=refused.step, reason=reason, used=_used(found))
        self._passed_over.append({"checkpoint": f"step {refused.step} of attempt {refused.generation}", "reason": reason})
        self._tell_of_damaged(found)
        return found

    def _tell_of_damaged(self, found: Checkpoint | None) -> None:
        for path in found.damaged if found else self._claim.damaged_checkpoints:
            self._log.log("checkpoint_damaged", level="warning", path=path, used=_used(found))
            self._passed_over.append({"checkpoint": path, "reason": "it is damaged"})

    def _anew(self) -> Resumption:
        here = use_threads_of(self._resources)
        return Resumption(None, self._chosen(here, []), self._machine([], self._passed_over))

    def _resumption(self, found: Checkpoint) -> Resumption:
        files = {name: data for name, data in found.files.items() if name != MACHINE}
        before = circumstances_of(files)
        machine = json.loads(found.files[MACHINE])
        others, there = list(machine["others"]), machine["fingerprint"]
        passed_over = [one for one in machine.get("passed_over", []) if one not in self._passed_over] + self._passed_over
        same = kept(self._resources, before, self._claim.n) if there == fingerprint() else None
        if same is None:
            use_threads_of(self._resources)
            others.append({"attempts_until": found.generation, "step": found.step, **before, "fingerprint": there})
            self._log.log("resumed_elsewhere", level="warning", step=found.step, reason="another machine, versions or limits")
        self._passed_over = passed_over
        return Resumption(files, self._chosen(same or self._resources, others), self._machine(others, passed_over), found)

    def _chosen(self, resources: Resources, others: list[dict[str, Any]]) -> Resources:
        mixed = {RESUMED: _mixed(others)} if others else {}
        passed_over = {PASSED_OVER: list(self._passed_over)} if self._passed_over else {}
        return resources._replace(choices={**resources.choices, **mixed, **passed_over})

    def _machine(self, others: list[dict[str, Any]], passed_over: list[dict[str, str]]) -> dict[str, Any]:
        return {"fingerprint": fingerprint(), "others": others, "passed_over": passed_over}


def _used(found: Checkpoint | None) -> str:
    return f"step {found.step}" if found else "none, begins anew"


def _mixed(others: list[dict[str, Any]]) -> dict[str, Any]:
    steps = ", ".join(str(other["step"]) for other in others)
    reason = "earlier steps were trained on another machine, with other versions or within other limits"
    return {"asked": "no", "value": f"at step {steps}", "reason": reason, "others": others}
