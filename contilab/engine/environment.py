"""What the engine chooses on this machine, and why; `env.json` keeps it next to each result."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from contilab import catalog
from contilab.engine.choice.decide import Found, Question, decide
from contilab.engine.choice.form import Form, Table
from contilab.engine.choice.offer import Asked, offered
from contilab.engine.choice.trial import seconds_worth, try_out
from contilab.engine.executions.abreast import abreast
from contilab.engine.executions.batched import batched
from contilab.engine.executions.compiled import compiled_batched, compiled_loop, compiled_vmap
from contilab.engine.executions.contract import MakeExecution
from contilab.engine.executions.graphed import graphed
from contilab.engine.executions.loop import loop
from contilab.engine.executions.vmap import vmap
from contilab.engine.room import Room
from contilab.engine.setup import Setup, learner_of, source_of
from contilab.engine.step import Learner
from contilab.hardware.device import Choice, choose_device
from contilab.hardware.fingerprint import this_machine
from contilab.hardware.profile import Profiles, Shape, written_out
from contilab.spec.run import Run
from contilab.spec.sections import Execution, Plugin

EXECUTIONS: dict[str, MakeExecution] = {
    "loop": abreast(loop, in_bf16=True),
    "vmap": vmap,
    "batched": abreast(batched),
}
GRAPHED: dict[str, MakeExecution] = {"graphed": graphed}  # by CUDA graphs
COMPILED: dict[str, MakeExecution] = {  # compiled forms of executions, under the name of the eager one
    "loop": compiled_loop,
    "vmap": compiled_vmap,
    "batched": compiled_batched,
}
TABLE = Table(EXECUTIONS | GRAPHED, COMPILED, frozenset(GRAPHED))


class Choices(NamedTuple):
    """What was chosen. vmap_fallback: vmap would have been used, but the strategy cannot be vmapped. warnings: for the user."""

    device: Choice
    execution: Choice
    precision: Choice
    compile: Choice
    vmap_fallback: bool
    warnings: tuple[str, ...] = ()

    @property
    def make(self) -> MakeExecution:
        """What builds the execution that was chosen, in its precision, compiled or not."""
        return TABLE.maker(self.form)

    @property
    def form(self) -> Form:
        """The form of the step that was chosen."""
        return Form(self.execution.value, self.precision.value, self.compile.value)


def choose(
    runs: Sequence[Run],
    execution: Execution,
    learner: Learner,
    *,
    profiles: Profiles | None = None,
    setup: Setup | None = None,
    room: Room | None = None,
) -> Choices:
    """Return the choices for *runs* trained together.

    *profiles*: what was measured before, and where to keep more. *setup*: of these runs; with it `auto` may measure for a
    moment, if there is *room* for that. Raises DeviceError if there is no such device, UsageError if nothing that was asked for
    can train them, and Crowded where the room is too small for all of them.
    """
    device = choose_device(execution.device)
    asked = Asked(execution.execution, runs[0].engine.precision, runs[0].engine.compile)
    offer = offered(asked, learner, device.value, TABLE, method=runs[0].method.name, members=len(runs))
    shape = shape_of(runs[0], learner, len(runs), device.value)
    threads = torch.get_num_threads() if shape.device == "cpu" else None
    question = Question(offer.forms, offer.rule, shape, _own(shape, runs[0], learner, threads), threads)
    verdict = decide(question, profiles or Profiles(), partial(_trial, setup, room) if setup else None)
    if setup and room:
        room.check(setup, verdict.form, TABLE)
    return Choices(
        device=device,
        execution=Choice(verdict.form.execution, offer.reason("execution", verdict)),
        precision=Choice(verdict.form.precision, offer.reason("precision", verdict)),
        compile=Choice(verdict.form.compile, offer.reason("compile", verdict)),
        vmap_fallback=offer.vmap_fallback,
        warnings=offer.warnings,
    )


def environment(runs: Sequence[Run], execution: Execution, profiles: Profiles | None = None) -> dict[str, Any]:
    """Return the choices for *runs* trained together as plain tables; loads no data and measures nothing."""
    choices = choose(runs, execution, learner_of(runs[0], source_of(runs[0])), profiles=profiles)
    named = {name: value._asdict() for name, value in choices._asdict().items() if isinstance(value, Choice)}
    return {**named, "vmap_fallback": choices.vmap_fallback, **_surroundings(len(runs))}


def circumstances(choices: Choices, members: int) -> dict[str, Any]:
    """Return what a snapshot names, so that a successor can keep it: the values chosen, members, threads and torch."""
    named = {name: value.value for name, value in choices._asdict().items() if isinstance(value, Choice)}
    return {**named, **_surroundings(members)}


def shape_of(run: Run, learner: Learner, members: int, device: str) -> Shape:
    """Return what the speed of *members* runs like *run* depends on."""
    return Shape(
        machine=this_machine(),
        device=torch.device(device).type,
        model=run.model.name,
        settings=model_settings(run.model),
        features=_features(run, learner),
        batch=run.train.batch,
        members=members,
    )


def model_settings(model: Plugin) -> dict[str, Any]:
    """Return the settings of *model* with every default written out."""
    return written_out(catalog.entry("model", model.name).settings(**model.settings))


def _trial(setup: Setup, room: Room | None, forms: Sequence[Form]) -> Found:
    """Measure *forms* if that is worth its time, and if all members of *setup* surely fit into several of them at once."""
    seconds = seconds_worth(setup)
    if not seconds or (room and not room.is_ample(setup)):
        return Found(())
    late: list[Form] = []
    rates = try_out(setup, forms, TABLE, seconds, late.append)
    return Found(rates, is_final=not late)


def _own(shape: Shape, run: Run, learner: Learner, threads: int | None) -> Shape:
    """Return *shape* with all that the short measurement rests on, which trains by the method and optimiser of the run."""
    replayed = len(learner.strategy.replay) * (run.memory.batch if run.memory and run.memory.batch != "train" else 0)
    detail = {"method": run.method.name, "optim": run.optim.name, "replayed": replayed, "threads": threads or 0}
    return shape._replace(detail=detail)


def _features(run: Run, learner: Learner) -> int:
    """Return how many numbers one input has: the same model takes other times for larger images."""
    if run.benchmark.name in catalog.KINDS["benchmark"]:
        return math.prod(source_of(run).input_shape)
    return math.prod(next(iter(learner.model.table.values())).shape[1:])


def _surroundings(members: int) -> dict[str, Any]:
    return {"members": members, "threads": torch.get_num_threads(), "torch": torch.__version__}
