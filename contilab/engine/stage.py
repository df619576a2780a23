"""The steps of one stage: chunk after chunk of draws, handed to the execution; between two chunks the watch is looked at."""

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from contilab.engine.checkpoint import Losses, Part
from contilab.engine.draws import Draws, Stage
from contilab.engine.ensemble import MemberState
from contilab.engine.executions.contract import Execution
from contilab.engine.memory.memories import Memories
from contilab.engine.recording.recorder import Recorder
from contilab.engine.schedule import BLOCK
from contilab.engine.setup import Setup
from contilab.engine.watch import Progress, Watch
from contilab.errors import Stopped

CHUNK_SECONDS = 0.5  # chosen: how long training may go on between two looks at the watch
NOTHING = Part()

Keep = Callable[[list[MemberState], Part], None]


class Session(NamedTuple):
    """One attempt at a group: what is trained, how, with which draws, and who watches."""

    setup: Setup
    execution: Execution
    draws: Draws
    watch: Watch


def keep_nothing(_members: list[MemberState], _part: Part) -> None:
    """Keep no snapshot."""


def heed(watch: Watch, save: Callable[[], None]) -> None:
    """Raise Stopped if the *watch* says so, after *save* if it asks for that."""
    if not watch.stop():
        return
    if watch.saves_on_stop():
        save()
    raise Stopped("", "training was stopped", hint="run the same command again to go on")


def train_stage(
    session: Session,
    stage: Stage,
    members: list[MemberState],
    memory: Memories,
    *,
    done: Part = NOTHING,
    keep: Keep = keep_nothing,
    recorder: Recorder | None = None,
) -> tuple[list[MemberState], Part]:
    """Train *members* by the steps of *stage* that are not *done*; return them with the losses and seconds of all its steps.

    *memory* takes in what is offered meanwhile. *keep* gets members and what is done of the stage, when the watch wants
    it. The tensors are those that training goes on with. *recorder* evaluates members on the way, not after the last step.
    Raises Stopped once the watch says so.
    """
    setup, execution, draws, watch = session
    lesson, training = setup.lesson(stage), setup.learner.strategy.training
    ensemble = execution.gather(members)
    step, limit, seconds = done.step, 1, done.seconds
    losses: list[Losses] = [] if done.losses is None else [done.losses]

    def save() -> None:
        keep(execution.scatter(ensemble), _part(step, losses, seconds))

    while step < stage.schedule.steps:
        if recorder is not None:
            recorder.note(stage, step, partial(execution.scatter, ensemble), memory.entries, partial(heed, watch, save))
        heed(watch, save)
        if watch.is_due():
            save()
        begin = time.perf_counter()
        chunk = stage.schedule.chunk(step, limit if recorder is None else recorder.until_next(stage, step, limit))
        if training is not None and chunk.offset == 0:
            ensemble = execution.gather(_at_rate(execution.scatter(ensemble), training.rate(chunk.epoch)))
        ensemble, loss = execution.train(ensemble, lesson, draws.chunk(stage, chunk, memory))
        losses.append(loss.cpu().numpy())  # waits for the device
        step += chunk.count
        seconds += time.perf_counter() - begin
        limit = max(1, min(BLOCK, int(CHUNK_SECONDS * (step - done.step) / (seconds - done.seconds))))
        watch.progress(_progress(setup, stage, done, _part(step, losses[-1:], seconds)))
    return execution.scatter(ensemble), _part(step, losses, seconds)


def _at_rate(members: list[MemberState], rate: float) -> list[MemberState]:
    """Return *members* that learn at *rate*; whatever the optimiser, its state names its rate `lr`."""
    return [
        member._replace(optimiser=member.optimiser._replace(lr=torch.full_like(member.optimiser.lr, rate)))
        for member in members
    ]


def _part(step: int, losses: list[Losses], seconds: float) -> Part:
    return Part(step, np.concatenate(losses) if losses else None, seconds)


def _progress(setup: Setup, stage: Stage, done: Part, now: Part) -> Progress:
    """Return the progress of a stage of which *done* was trained before, and whose latest losses are those of *now*."""
    latest = np.empty(0) if now.losses is None else now.losses[-1][np.isfinite(now.losses[-1])]
    earlier = sum(before.schedule.steps for before in setup.stages[: stage.task])
    samples = stage.samples_until(now.step) - stage.samples_until(done.step)
    return Progress(
        task=stage.task,
        tasks=len(setup.stages),
        step=earlier + now.step,
        steps=setup.steps,
        samples_per_second=len(setup.runs) * samples / (now.seconds - done.seconds),
        loss=float(latest.mean(dtype=np.float64)) if len(latest) else None,  # float32 may not hold the sum
    )
