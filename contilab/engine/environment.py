"""What the engine chooses on this machine, and why; `env.json` keeps it next to each result."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from contilab.engine.executions.contract import MakeExecution
from contilab.engine.executions.loop import loop
from contilab.engine.executions.vmap import vmap
from contilab.engine.setup import learner_of, source_of
from contilab.engine.step import Learner
from contilab.hardware.device import Choice, choose_device
from contilab.spec.run import Run
from contilab.spec.sections import Execution

EXECUTIONS: dict[str, MakeExecution] = {"loop": loop, "vmap": vmap}


class Choices(NamedTuple):
    """What was chosen. vmap_fallback: vmap would have been used, but the strategy cannot be vmapped."""

    device: Choice
    execution: Choice
    precision: Choice
    compile: Choice
    vmap_fallback: bool


def choose(runs: Sequence[Run], execution: Execution, learner: Learner) -> Choices:
    """Return the choices for *runs* trained together. Raises DeviceError if there is no such device."""
    wanted = _wanted(execution.execution, len(runs), is_convolutional=learner.model.is_convolutional)
    falls_back = wanted.value == "vmap" and not learner.strategy.is_vmappable
    fallback = Choice("loop", f'the strategy "{runs[0].method.name}" cannot be vmapped')
    return Choices(
        device=choose_device(execution.device),
        execution=fallback if falls_back else wanted,
        precision=Choice("fp32", "asked for" if runs[0].engine.precision == "fp32" else "the only one offered"),
        compile=Choice("off", "asked for" if runs[0].engine.compile == "off" else "compilation is not offered"),
        vmap_fallback=falls_back,
    )


def environment(runs: Sequence[Run], execution: Execution) -> dict[str, Any]:
    """Return the choices for *runs* trained together as plain tables; loads no data."""
    choices = choose(runs, execution, learner_of(runs[0], source_of(runs[0])))
    named = {name: value._asdict() for name, value in choices._asdict().items() if isinstance(value, Choice)}
    return {**named, "vmap_fallback": choices.vmap_fallback, **_surroundings(len(runs))}


def circumstances(choices: Choices, members: int) -> dict[str, Any]:
    """Return what a snapshot names, so that a successor can keep it: the values chosen, members, threads and torch."""
    named = {name: value.value for name, value in choices._asdict().items() if isinstance(value, Choice)}
    return {**named, **_surroundings(members)}


def _surroundings(members: int) -> dict[str, Any]:
    return {"members": members, "threads": torch.get_num_threads(), "torch": torch.__version__}


def _wanted(asked: str, members: int, *, is_convolutional: bool) -> Choice:
    if asked != "auto":
        return Choice(asked, "asked for")
    if members == 1:
        return Choice("loop", "one member has nothing to share")
    if is_convolutional:
        return Choice("loop", "for small convolutional nets a member loop is 1.7 to 2.5 times as fast as vmap on a CPU")
    return Choice("vmap", f"{members} members of a model of linear layers train together")
