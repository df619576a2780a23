"""Measures the landscape of all members: after each stage, and at the end of the run.

Members are independent here, so one comes after the other, with the bits of a single run. Nothing is drawn that training draws,
and nothing written that it reads.
"""

from collections.abc import Callable, Sequence
from typing import Any

from contilab.engine.draws import Stage
from contilab.engine.ensemble import MemberState
from contilab.engine.memory.entries import Entries
from contilab.engine.recording import few_shot, gradients
from contilab.engine.recording.interpolation import losses_between
from contilab.engine.recording.landscape import MOST_BYTES, Ground, Landscape, has_landscape, keeps_parameters
from contilab.engine.setup import Setup, initial_members
from contilab.models.contract import Params

PASSES = 3  # that forward and backward of a sample are worth

Look = Callable[[], None]


def ground_after(setup: Setup, stage: Stage, member: MemberState, look: Look) -> Ground | None:
    """Return what is measured of *member* after *stage*; None where nothing is."""
    if not has_landscape(setup) or not keeps_parameters(setup, member.params):
        return None
    grads, samples = gradients.task_gradients(setup, member.params, last=setup.last_task(stage), look=look)
    is_last = stage.task == len(setup.stages) - 1
    params = None if is_last else {name: value.detach().to("cpu", copy=True) for name, value in member.params.items()}
    return Ground(gradients.cosines(grads, len(setup.rows)), params, PASSES * samples)


def measure_end(
    setup: Setup,
    members: Sequence[MemberState],
    entries: Sequence[Entries],
    landscapes: Sequence[Landscape | None],
    look: Look,
) -> None:
    """Complete the *landscapes* of finished *members* (None: of one that diverged), whose memories hold *entries*.

    *look* is called before each pass through the model; if it raises, nothing is noted.
    """
    if not has_landscape(setup):
        return
    parts = zip(setup.runs, members, initial_members(setup), entries, landscapes, strict=True)
    found: list[tuple[Landscape, list[tuple[list[float], int]], list[tuple[float, int]]]] = []
    for run, member, first, own, landscape in parts:
        if landscape is None:
            continue
        lines = [_line(setup, params, member.params, task, look) for task, params in enumerate(landscape.params)]
        fresh = member._replace(optimiser=first.optimiser)
        again = [_again(setup, (fresh, own), run.seed, task, look) for task in range(len(setup.rows) - 1)]
        found.append((landscape, lines, again))
    for landscape, lines, again in found:
        landscape.loss, landscape.few_shot = [line for line, _ in lines], [accuracy for accuracy, _ in again]
        landscape.passes += sum(passes for _, passes in (*lines, *again))


def landscape_notes(setup: Setup) -> dict[str, Any]:
    """Return how the landscape was measured, as the record holds it."""
    if not has_landscape(setup):
        return {}
    facts = {"gradient_samples": gradients.SAMPLES, "few_shot_steps": few_shot.STEPS, "most_kept_bytes": MOST_BYTES}
    return {"landscape": facts}


def _line(setup: Setup, begin: Params, end: Params, task: int, look: Look) -> tuple[list[float], int]:
    there = {name: value.to(setup.device) for name, value in begin.items()}
    return losses_between(setup, there, end, task=task, look=look)


def _again(setup: Setup, pair: tuple[MemberState, Entries], seed: int, task: int, look: Look) -> tuple[float, int]:
    member, entries = pair
    again, seen = few_shot.relearned(setup, member, seed, task=task, steps=few_shot.STEPS, look=look)
    accuracy, passes = few_shot.accuracy_on(setup, again, entries, task=task, look=look)
    return accuracy, PASSES * seen + passes
