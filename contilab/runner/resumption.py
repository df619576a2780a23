"""What an attempt begins with: the newest checkpoint of its group, and the choices it was trained with.

On a machine with the same fingerprint they are kept, so that the numbers are those of an attempt that was never interrupted,
to the bit. Elsewhere everything is chosen anew, and the result says so.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from contilab.engine.checkpoint import circumstances_of
from contilab.errors import CheckpointMismatch
from contilab.runner.keeper import MACHINE
from contilab.runner.logging import GroupLog
from contilab.runner.resources import Resources, kept
from contilab.runner.sidecars import fingerprint
from contilab.store.claim import Claim

RESUMED = "resumed"  # the entry of env.json where steps were trained in other circumstances


class Resumption(NamedTuple):
    """The *files* of a snapshot (None: begin anew), and what to train with. *machine*: what checkpoints from now on name."""

    files: Mapping[str, bytes] | None
    resources: Resources
    machine: dict[str, Any]


def anew(resources: Resources) -> Resumption:
    """Return the beginning at the first step."""
    choices = {name: choice for name, choice in resources.choices.items() if name != RESUMED}
    return Resumption(None, resources._replace(choices=choices), {"fingerprint": fingerprint(), "others": []})


def resumption(claim: Claim, resources: Resources, log: GroupLog) -> Resumption:
    """Return where the attempt begins; damaged checkpoints that were passed over are logged."""
    found = claim.checkpoint()
    for path in found.damaged if found else claim.damaged_checkpoints:
        log.log("checkpoint_damaged", level="warning", path=path, used=f"step {found.step}" if found else "none, begins anew")
    if found is None:
        return anew(resources)
    files = {name: data for name, data in found.files.items() if name != MACHINE}
    try:
        before = circumstances_of(files)
        machine = json.loads(found.files[MACHINE])
        others, there = list(machine["others"]), machine["fingerprint"]
    except (CheckpointMismatch, ValueError, KeyError, TypeError) as error:
        log.log("checkpoint_refused", level="warning", step=found.step, reason=str(error), used="none, begins anew")
        return anew(resources)
    same = kept(resources, before, claim.n) if there == fingerprint() else None
    if same is None:
        others.append({"attempts_until": found.generation, "step": found.step, **before, "fingerprint": there})
        log.log("resumed_elsewhere", level="warning", step=found.step, reason="another machine, versions or limits")
    chosen = same or resources
    choices = {**chosen.choices, **({RESUMED: _mixed(others)} if others else {})}
    return Resumption(files, chosen._replace(choices=choices), {"fingerprint": fingerprint(), "others": others})


def _mixed(others: list[dict[str, Any]]) -> dict[str, Any]:
    steps = ", ".join(str(other["step"]) for other in others)
    reason = "earlier steps were trained on another machine, with other versions or within other limits"
    return {"asked": "no", "value": f"at step {steps}", "reason": reason, "others": others}
