"""Training of one group: stage after stage, all members together, evaluated after each."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from contilab.engine.checkpoint import Part, Standing, pack, step_of, unpack
from contilab.engine.closing import end_of_task, examine, memory_notes, taken_in
from contilab.engine.costs import Stopwatch, cost
from contilab.engine.diary import Diary, outcome
from contilab.engine.draws import Stage
from contilab.engine.ensemble import MemberState
from contilab.engine.environment import choose, circumstances
from contilab.engine.evaluate import not_at_all
from contilab.engine.executions.contract import MakeExecution
from contilab.engine.memory.entries import Entries
from contilab.engine.recording.portrait import portraits_after
from contilab.engine.recording.recorder import Recorder, stream_notes
from contilab.engine.recording.survey import ground_after, landscape_notes, measure_end
from contilab.engine.room import Room
from contilab.engine.setup import Setup, begun_anew, draws_of, initial_members, initial_memory, learner_of, prepare, source_of
from contilab.engine.stage import Session, heed, train_stage
from contilab.engine.watch import Watch
from contilab.hardware.device import choose_device
from contilab.hardware.peak import forget_device_peak
from contilab.hardware.profile import Profiles
from contilab.records.outcome import Outcome
from contilab.spec.run import Run
from contilab.spec.sections import Execution


def train(
    runs: Sequence[Run],
    execution: Execution,
    watch: Watch,
    *,
    resume: Mapping[str, bytes] | None = None,
    profiles: Profiles | None = None,
    room: Room | None = None,
) -> list[Outcome]:
    """Train *runs*, which are equal but for seeds and per-member settings, and return what each leaves, in order.

    *resume*: the files of a snapshot of these runs, and maybe others, from which to go on. *profiles*: what was measured of
    this machine, for `auto`. *room*: what the runs may take; without it memory is not looked at before training.

    Raises Stopped once *watch* says so, CheckpointMismatch if the snapshot does not fit, Crowded if the *room* is too small,
    DataError and DeviceError where those are missing, and torch's errors unchanged.
    """
    source = source_of(runs[0])
    learner = learner_of(runs[0], source)
    device = choose_device(execution.device).value  # before the data are loaded: it may be refused
    setup = prepare(runs, learner, source.load(), device=torch.device(device), data_on_device=execution.data_on_device)
    choices = choose(runs, execution, learner, profiles=profiles, setup=setup, room=room)
    for warning in choices.warnings:
        watch.log("not_as_asked", level="warning", reason=warning)
    facts = {"execution": choices.execution.value, "device": choices.device.value, "data_on": setup.place.value}
    watch.log("training", members=len(runs), **facts, data_reason=setup.place.reason)
    named = circumstances(choices, len(runs))
    forget_device_peak(device)  # what is recorded is that of this group
    return train_group(setup, choices.make, watch, resume=resume, named=named)


def train_group(
    setup: Setup,
    make: MakeExecution,
    watch: Watch,
    *,
    resume: Mapping[str, bytes] | None = None,
    named: Mapping[str, Any] | None = None,
) -> list[Outcome]:
    """Train the members of *setup* by the execution that *make* builds, and return what each run leaves.

    *named*: the circumstances that snapshots name.
    """
    standing = _beginning(setup, watch) if resume is None else unpack(setup, resume)
    session = Session(setup, make(setup.learner), draws_of(setup), watch)
    keeper = _Keeper(setup, watch, named or {}, step_of(setup, standing))
    if resume is not None:
        watch.log("resumed", task=standing.task, step=keeper.kept)
    for stage in setup.stages[standing.task :]:
        if all(diary.diverged for diary in standing.diaries):
            break
        standing = _learn(session, stage, standing, keeper)
        if watch.is_due_at_task_end():
            keeper.keep(standing)
    with standing.clock.records():
        entries, diaries = standing.memory.entries(), standing.diaries
        landscapes = [None if diary.diverged else diary.landscape for diary in diaries]
        measure_end(setup, standing.members, entries, landscapes, partial(heed, watch, partial(keeper.keep, standing)))
    # Behind the clock: what an outcome says of recording is known once recording has ended.
    parts = zip(setup.runs, standing.members, entries, diaries, strict=True)
    return [_outcome(setup, *part, clock=standing.clock) for part in parts]


class _Keeper:
    """Hands snapshots to the watch: none if it keeps none, and none of the step *kept* that it has."""

    def __init__(self, setup: Setup, watch: Watch, named: Mapping[str, Any], kept: int) -> None:
        self.setup, self.watch, self.named, self.kept = setup, watch, named, kept

    def keep(self, standing: Standing) -> None:
        step = step_of(self.setup, standing)
        if self.watch.save is None or step == self.kept:
            return
        with standing.clock.records():
            self.watch.save(pack(self.setup, standing, self.named))
        self.kept = step


def _beginning(setup: Setup, watch: Watch) -> Standing:
    clock = Stopwatch()
    members, memory = initial_members(setup), initial_memory(setup)
    diaries = [Diary() for _ in members]
    with clock.records():
        look = partial(heed, watch, not_at_all)
        for member, entries, diary in zip(members, memory.entries(), diaries, strict=True):
            diary.note_marks(None, *examine(setup, None, member, entries, look))
    return Standing(0, Part(), members, memory, diaries, clock)


def _learn(session: Session, stage: Stage, standing: Standing, keeper: _Keeper) -> Standing:
    """Train all members on *stage*, let their strategies close it, and note how they did.

    Told to stop while a stage is closed, its last step is kept and closing it is left to who resumes.
    """
    setup, watch = session.setup, session.watch
    members, diaries, clock = standing.members, standing.diaries, standing.clock
    memory = standing.memory.copy()
    if setup.learner.strategy.is_fresh and standing.part.step == 0:
        members = begun_anew(setup, members)

    def keep(members: list[MemberState], part: Part) -> None:
        keeper.keep(standing._replace(members=members, memory=memory, part=part))

    recorder = Recorder(setup, [diary.stream for diary in diaries], clock)
    trained, part = train_stage(session, stage, members, memory, done=standing.part, keep=keep, recorder=recorder)
    _tell(session, stage)

    def look() -> None:
        heed(watch, lambda: keep(trained, part))

    closed = taken_in(session, stage, trained, memory, look)
    # Here and not after the last step: nearest means of the new classes need what memory takes in at the end.
    recorder.note(stage, stage.schedule.steps, lambda: trained, closed.entries, look)
    members = []
    for run, member in zip(setup.runs, trained, strict=True):
        look()
        members.append(end_of_task(setup, stage, run, member))
    losses = np.empty((0, len(members))) if part.losses is None else part.losses
    with clock.records():
        finite = np.array([diary.diverged is None for diary in diaries]) & np.isfinite(losses).all(0)
        parts = zip(members, closed.entries(), finite, strict=True)
        found = [examine(setup, stage, one, entries, look) if alive else None for one, entries, alive in parts]
        pairs = zip(members, finite, strict=True)
        grounds = [ground_after(setup, stage, one, look) if alive else None for one, alive in pairs]
        known = [diary.representation if one and one[0].is_finite else None for diary, one in zip(diaries, found, strict=True)]
        portraits = portraits_after(setup, stage, members, known, look)
    # Nothing may be noted before the last look: what is kept there is a stage that is not closed.
    for diary, own, entries, marks, ground in zip(diaries, losses.T, closed.entries(), found, grounds, strict=True):
        if diary.diverged is None:
            diary.note_losses(setup, stage, own, entries)
        if marks is not None:
            diary.note_marks(stage, *marks)
        if diary.diverged is None and ground is not None:
            diary.landscape.note(ground)
    for diary, portrait in zip(diaries, portraits, strict=True):
        if portrait is not None:
            diary.representation.note(portrait)
    clock.steps_per_second.append(part.step / part.seconds if part.step else 0.0)
    diverged = sum(diary.diverged is not None for diary in diaries)
    watch.log("task_end", task=stage.task, seconds=part.seconds, diverged=diverged)
    return Standing(stage.task + 1, Part(), members, closed, diaries, clock)


def _outcome(setup: Setup, run: Run, member: MemberState, entries: Entries, diary: Diary, *, clock: Stopwatch) -> Outcome:
    notes = setup.learner.strategy.notes
    if diary.diverged is None:
        diary.notes = {**memory_notes(setup, entries, diary), **(notes(member.strategy) if notes is not None else {})}
    diary.notes |= stream_notes(setup) | landscape_notes(setup)
    return outcome(setup, run, member, diary, cost(setup, member, diary, clock))


def _tell(session: Session, stage: Stage) -> None:
    """Tell the watch how long compiling took, and why it was given up."""
    report = session.execution.report()
    if report.compile_seconds:
        session.watch.log("compiled", task=stage.task, seconds=report.compile_seconds)
    if report.fallback:
        session.watch.log("compile_failed", level="warning", task=stage.task, reason=report.fallback)
