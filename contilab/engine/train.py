"""Training of one group: stage after stage, all members together, evaluated after each."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from contilab.engine import streams
from contilab.engine.checkpoint import Part, Standing, pack, step_of, unpack
from contilab.engine.costs import Stopwatch, cost
from contilab.engine.diary import Diary, outcome
from contilab.engine.draws import Draws, Stage
from contilab.engine.ensemble import MemberState, clone
from contilab.engine.environment import choose, circumstances
from contilab.engine.evaluate import Exam, Marks, Row, evaluate, not_at_all, test_exam, validation_exam
from contilab.engine.executions.contract import MakeExecution
from contilab.engine.importance import Samples, importance
from contilab.engine.setup import Setup, initial_members, learner_of, prepare, source_of
from contilab.engine.stage import Session, heed, train_stage
from contilab.engine.watch import Watch
from contilab.hardware.device import choose_device
from contilab.hardware.profile import Profiles
from contilab.models.contract import Params
from contilab.records.outcome import Outcome
from contilab.spec.run import Run
from contilab.spec.sections import Execution
from contilab.strategies.contract import Importance, TaskEnd


def train(
    runs: Sequence[Run],
    execution: Execution,
    watch: Watch,
    *,
    resume: Mapping[str, bytes] | None = None,
    profiles: Profiles | None = None,
) -> list[Outcome]:
    """Train *runs*, which are equal but for seeds and per-member settings, and return what each leaves, in order.

    *resume*: the files of a snapshot of these runs, and maybe others, from which to go on. *profiles*: what was measured of
    this machine, for `auto`.

    Raises Stopped once *watch* says so, CheckpointMismatch if the snapshot does not fit, DataError and DeviceError where those
    are missing, and torch's errors unchanged.
    """
    source = source_of(runs[0])
    learner = learner_of(runs[0], source)
    device = choose_device(execution.device).value  # before the data are loaded: it may be refused
    setup = prepare(runs, learner, source.load(), device=torch.device(device))
    choices = choose(runs, execution, learner, profiles=profiles, setup=setup)
    for warning in choices.warnings:
        watch.log("not_as_asked", level="warning", reason=warning)
    watch.log("training", members=len(runs), execution=choices.execution.value, device=choices.device.value)
    named = circumstances(choices, len(runs))
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
    draws = Draws([run.seed for run in setup.runs], setup.plan, device=setup.device, dtype=setup.dtype)
    session = Session(setup, make(setup.learner), draws, watch)
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
        parts = zip(setup.runs, standing.members, standing.diaries, strict=True)
        return [_outcome(setup, *part, standing.clock) for part in parts]


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
    members = initial_members(setup)
    diaries = [Diary() for _ in members]
    with clock.records():
        for member, diary in zip(members, diaries, strict=True):
            diary.note_marks(None, *_examine(setup, None, member, lambda: heed(watch, not_at_all)))
    return Standing(0, Part(), members, diaries, clock)


def _learn(session: Session, stage: Stage, standing: Standing, keeper: _Keeper) -> Standing:
    """Train all members on *stage*, let their strategies close it, and note how they did.

    Told to stop while a stage is closed, its last step is kept and closing it is left to who resumes.
    """
    setup, watch = session.setup, session.watch
    members, diaries, clock = standing.members, standing.diaries, standing.clock

    def keep(members: list[MemberState], part: Part) -> None:
        keeper.keep(standing._replace(members=members, part=part))

    trained, part = train_stage(session, stage, members, done=standing.part, keep=keep)
    assert part.losses is not None, "a stage has at least one step"  # noqa: S101 - a fault of ours

    def look() -> None:
        heed(watch, lambda: keep(trained, part))

    members = []
    for run, member in zip(setup.runs, trained, strict=True):
        look()
        members.append(_end_of_task(setup, stage, run, member))
    with clock.records():
        alive = np.array([diary.diverged is None for diary in diaries])
        alive &= np.isfinite(part.losses).all(0)
        pairs = zip(members, alive, strict=True)
        found = [_examine(setup, stage, member, look) if is_alive else None for member, is_alive in pairs]
    # Nothing may be noted before the last look: what is kept there is a stage that is not closed.
    for diary, own, marks in zip(diaries, part.losses.T, found, strict=True):
        if diary.diverged is None:
            diary.note_losses(setup, stage, own)
        if marks is not None:
            diary.note_marks(stage, *marks)
    clock.steps_per_second.append(part.step / part.seconds)
    diverged = sum(diary.diverged is not None for diary in diaries)
    watch.log("task_end", task=stage.task, seconds=part.seconds, diverged=diverged)
    return Standing(stage.task + 1, Part(), members, diaries, clock)


def _examine(setup: Setup, stage: Stage | None, member: MemberState, look: Callable[[], None]) -> tuple[Marks, Row | None]:
    """Return the marks of *member* after *stage*, or of the untrained model, and its accuracies on validation samples."""
    last = -1 if stage is None else setup.last_task(stage)

    def sit(exam: Exam) -> Marks:
        return evaluate(setup.learner.model, member.params, exam, setup.shared.benchmark, setup.rows, last=last, look=look)

    exam = validation_exam(setup.stream)
    is_validated = stage is not None and len(exam.samples) > 0
    return sit(test_exam(setup.stream)), sit(exam).accuracy if is_validated else None


def _end_of_task(setup: Setup, stage: Stage, run: Run, member: MemberState) -> MemberState:
    """Return *member* with the state its strategy has after *stage*; members are independent, so one after the other."""
    strategy = setup.learner.strategy
    if strategy.after_task is None:
        return member
    request = strategy.importance
    found = None if request is None else _importance(setup, stage, run, member.params, request)
    # Copies: the optimiser may write into parameters, and an anchor must not move with them.
    return member._replace(strategy=strategy.after_task(member.strategy, TaskEnd(clone(member.params), found)))


def _importance(setup: Setup, stage: Stage, run: Run, params: Params, request: Importance) -> Params:
    count = min(request.samples, len(stage.samples))
    order = streams.permutation(run.seed, streams.IMPORTANCE, task=stage.task, index=0, count=len(stage.samples))
    uniform = streams.uniforms(run.seed, streams.IMPORTANCE_DRAW, task=stage.task, index=0, count=count)
    index = torch.from_numpy(stage.samples[order[:count]]).to(setup.device)
    lesson = setup.lesson(stage)
    samples = Samples(
        lesson.inputs[index],
        lesson.rows[index],
        lesson.masks[lesson.tasks[index]],
        torch.from_numpy(uniform).to(setup.device, setup.dtype),
    )
    return importance(setup.learner.model, params, request, samples)


def _outcome(setup: Setup, run: Run, member: MemberState, diary: Diary, clock: Stopwatch) -> Outcome:
    notes = setup.learner.strategy.notes
    if notes is not None and diary.diverged is None:
        diary.notes = notes(member.strategy)
    return outcome(setup, run, member, diary, cost(setup, member, diary.steps, clock))
