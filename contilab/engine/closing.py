"""The end of a stage: what memory takes in, what strategies make of what was learned, and the exams of every member.

Members are independent here, so one comes after the other, with the bits of a single run.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from contilab.engine import masks, streams
from contilab.engine.diary import Diary
from contilab.engine.draws import Stage
from contilab.engine.ensemble import MemberState, clone
from contilab.engine.evaluate import Exam, Marks, Row, evaluate, test_exam, validation_exam
from contilab.engine.exemplars import Look, chosen
from contilab.engine.importance import Samples, importance
from contilab.engine.judge import judge_of
from contilab.engine.memory.entries import Entries
from contilab.engine.memory.memories import Memories
from contilab.engine.pools import gathered
from contilab.engine.setup import Setup, resting
from contilab.engine.stage import Session
from contilab.engine.step import Lesson
from contilab.models.contract import Params
from contilab.spec.run import Run
from contilab.strategies.contract import Importance, TaskEnd


def taken_in(session: Session, stage: Stage, members: list[MemberState], memory: Memories, look: Look) -> Memories:
    """Return what memory holds once *stage* is closed by trained *members*; *memory* stays as it is."""
    setup = session.setup
    if setup.plan.insert != "task_end" or setup.plan.capacity == 0 or stage.fills:
        return memory
    closed = memory.copy()
    if setup.plan.policy != "herding":
        session.draws.offer_all(stage, closed)
        return closed
    for place, (member, entries) in enumerate(zip(members, memory.entries(), strict=True)):
        closed.replace(place, chosen(resting(setup, member), stage, member.params, entries, look))
    closed.count_offered(np.broadcast_to(stage.new, (len(members), len(stage.new))))
    return closed


def examine(setup: Setup, stage: Stage | None, member: MemberState, entries: Entries, look: Look) -> tuple[Marks, Row | None]:
    """Return the marks of *member* after *stage*, or of the untrained model, and its accuracies on validation samples."""
    last = -1 if stage is None else setup.last_task(stage)
    judge = judge_of(resting(setup, member), member.params, entries, look)

    def sit(exam: Exam) -> Marks:
        return evaluate(judge, exam, setup.shared.benchmark, setup.rows, last=last, look=look)

    exam = validation_exam(setup.stream)
    is_validated = stage is not None and len(exam.samples) > 0
    return sit(test_exam(setup.stream)), sit(exam).accuracy if is_validated else None


def end_of_task(setup: Setup, stage: Stage, run: Run, member: MemberState) -> MemberState:
    """Return *member* with the state its strategy has after *stage*; members are independent, so one after the other."""
    strategy = setup.learner.strategy
    if strategy.after_task is None:
        return member
    request = strategy.importance
    found = None if request is None else _importance(resting(setup, member), stage, run, member.params, request)
    groups = masks.groups(setup.shared.benchmark, setup.rows, setup.stream.head_rows, last=setup.last_task(stage))
    # Copies: the optimiser may write into parameters, and an anchor must not move with them.
    end = TaskEnd(clone(member.params), found, groups.to(setup.device))
    frozen = clone(member.buffers) if member.frozen else {}
    return member._replace(strategy=strategy.after_task(member.strategy, end), frozen=frozen)


def _importance(setup: Setup, stage: Stage, run: Run, params: Params, request: Importance) -> Params:
    count = min(request.samples, len(stage.samples))
    order = streams.permutation(run.seed, streams.IMPORTANCE, task=stage.task, index=0, count=len(stage.samples))
    uniform = streams.uniforms(run.seed, streams.IMPORTANCE_DRAW, task=stage.task, index=0, count=count)
    learned = stage.samples if setup.mixture is None else setup.mixture.line(run.seed, stage.task)
    index = torch.from_numpy(learned[order[:count]]).to(setup.device)
    lesson = setup.lesson(stage)
    samples = Samples(
        gathered(lesson.inputs, index),
        lesson.rows[index],
        _masks(setup, stage, run, lesson, index),
        torch.from_numpy(uniform).to(setup.device, setup.dtype),
    )
    return importance(setup.learner.model, params, request, samples, batch=stage.schedule.batch)


def _masks(setup: Setup, stage: Stage, run: Run, lesson: Lesson, index: Tensor) -> Tensor:
    """Return the masks [n, C] that the samples *index* [n] have once *stage* is over; where tasks mix, what *run* has seen."""
    if setup.mixture is not None and setup.masks_seen:
        seen = torch.from_numpy(setup.mixture.seen_after(run.seed, stage.task)).to(setup.device)
        return seen.expand(len(index), -1)
    return lesson.masks[lesson.tasks[index]]


def memory_notes(setup: Setup, entries: Entries, diary: Diary) -> dict[str, Any]:
    """Return what is noted of methods that train on memory, or predict by it, and of streams without sharp boundaries.

    *memory_share*: the share of the samples of each stage that came from memory. *head*, and *classes_without_entry*: how many
    classes of the tasks learned it cannot predict.
    """
    strategy = setup.learner.strategy
    notes: dict[str, Any] = _boundary_notes(setup)
    if strategy.stages in ("exemplars", "memory"):
        notes["memory_share"] = diary.memory_share(setup.stages)
    if strategy.head != "linear":
        rows = set(setup.stream.train_rows.cpu().numpy()[entries.held].tolist())
        seen = {row for task in setup.rows for row in task}
        notes |= {"head": strategy.head, "classes_without_entry": len(seen - rows)}
    return notes


def _boundary_notes(setup: Setup) -> dict[str, Any]:
    """Return what a method does at task boundaries that its stream does not have, and what it looks at again.

    *acts_at*: "nominal boundaries" for what happens between tasks although they mix. *second_look*: of a stream that is seen
    once, why samples of a task are looked at again when it ends.
    """
    strategy, plan, benchmark = setup.learner.strategy, setup.plan, setup.shared.benchmark
    offers_late = plan.capacity > 0 and plan.insert == "task_end"
    needs = strategy.after_task or strategy.reference or strategy.stages != "tasks" or offers_late
    notes: dict[str, Any] = {"acts_at": "nominal boundaries"} if setup.mixture is not None and needs else {}
    if benchmark.online or benchmark.fuzzy_steps:
        looks = {"importances": strategy.importance is not None, "memory": offers_late}
        if any(looks.values()):
            notes["second_look"] = ", ".join(name for name, is_so in looks.items() if is_so)
    return notes
