"""The steps of one stage: chunk after chunk of draws, handed to the execution; between two chunks the watch is looked at."""

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contilab.engine.draws import Draws, Stage
from contilab.engine.ensemble import MemberState
from contilab.engine.executions.contract import Execution
from contilab.engine.schedule import BLOCK
from contilab.engine.setup import Setup
from contilab.engine.watch import Progress, Watch
from contilab.errors import Stopped

CHUNK_SECONDS = 0.5  # chosen: how long training may go on between two looks at the watch

Losses = NDArray[Any]  # [S, E]


class Session(NamedTuple):
    """One attempt at a group: what is trained, how, with which draws, and who watches."""

    setup: Setup
    execution: Execution
    draws: Draws
    watch: Watch


def train_stage(session: Session, stage: Stage, members: list[MemberState]) -> tuple[list[MemberState], Losses]:
    """Train *members* by all steps of *stage*; return them with the losses of each step.

    Raises Stopped once the watch says so.
    """
    setup, execution, draws, watch = session
    lesson = setup.lesson(stage)
    ensemble = execution.gather(members)
    losses: list[Losses] = []
    begin, step, limit = time.perf_counter(), 0, 1
    while step < stage.schedule.steps:
        if watch.stop():
            raise Stopped("", "training was stopped", hint="run the same command again to go on")
        chunk = stage.schedule.chunk(step, limit)
        ensemble, loss = execution.train(ensemble, lesson, draws.chunk(stage, chunk))
        losses.append(loss.cpu().numpy())  # waits for the device
        step += chunk.count
        seconds = time.perf_counter() - begin
        limit = max(1, min(BLOCK, int(CHUNK_SECONDS * step / seconds)))
        watch.progress(_progress(setup, stage, step, seconds, losses[-1]))
    return execution.scatter(ensemble), np.concatenate(losses)


def _progress(setup: Setup, stage: Stage, step: int, seconds: float, losses: Losses) -> Progress:
    latest = losses[-1][np.isfinite(losses[-1])]
    earlier = sum(before.schedule.steps for before in setup.stages[: stage.task])
    return Progress(
        task=stage.task,
        tasks=len(setup.stages),
        step=earlier + step,
        steps=setup.steps,
        samples_per_second=len(setup.runs) * stage.samples_until(step) / seconds,
        loss=float(latest.mean()) if len(latest) else None,
    )
