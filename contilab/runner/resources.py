"""What an attempt may use here: `auto` of the plan becomes a device and a number of threads of this machine, with reasons."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from contilab.errors import DeviceError, Fault, UsageError
from contilab.hardware.device import choose_device
from contilab.hardware.threads import Threads, thread_budget, use_threads
from contilab.spec.sections import Execution


class Resources(NamedTuple):
    """Engine settings without `auto` for device and threads, and what was chosen why (part of `env.json`)."""

    execution: Execution
    choices: dict[str, Any]


def resources(planned: Execution, *, device: str | None, share: int) -> Resources:
    """Return what a group planned with *planned* gets here and set torch's threads to it.

    device: what the command line asks for, before what the manifest does. share: processes that share this machine.
    Raises DeviceError where there is no such device.
    """
    chosen = choose_device(device or planned.device)
    threads = _threads(planned, share)
    use_threads(threads.count)
    choices = {
        "device": {"asked": device or planned.device, "value": chosen.value, "reason": chosen.reason},
        "threads": {"asked": planned.threads, "value": threads.count, "reason": threads.reason},
    }
    return Resources(replace(planned, device=chosen.value, threads=threads.count), choices)


def kept(here: Resources, before: Mapping[str, Any], attempt: int) -> Resources | None:
    """Return *here* with execution and threads of a checkpoint, and set torch's threads; None where they do not go together.

    *before*: what the checkpoint was trained with. *attempt*: the number of the one that goes on with it.
    """
    is_same_device = str(before["device"]).split(":")[0] == here.execution.device.split(":")[0]
    threads = int(before["threads"])
    if not is_same_device or threads > thread_budget(environ={}).count:
        return None
    use_threads(threads)
    reason = f"kept from the checkpoint that attempt {attempt} goes on with"
    choices = {
        **here.choices,
        "threads": {**here.choices["threads"], "value": threads, "reason": reason},
        "execution": {"asked": here.execution.execution, "value": before["execution"], "reason": reason},
    }
    return Resources(replace(here.execution, execution=before["execution"], threads=threads), choices)


def use_threads_of(resources: Resources) -> Resources:
    """Set torch's threads to those of *resources*, after a look at what a checkpoint was trained with; return *resources*."""
    use_threads(int(resources.execution.threads))
    return resources


def lacking_device(asked: str) -> Fault | None:
    """Return what is wrong with the device *asked*, or None if it is here."""
    try:
        choose_device(asked)
    except (DeviceError, UsageError) as error:
        return error.faults[0]
    return None


def _threads(planned: Execution, share: int) -> Threads:
    if planned.threads == "auto":
        return thread_budget(share)
    return Threads(planned.threads, "asked for in the manifest")
