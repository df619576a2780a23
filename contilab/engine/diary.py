"""What is noted of one member while it is trained, and the outcome that is made of it at the end."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from contilab.engine.draws import Stage
from contilab.engine.ensemble import MemberState
from contilab.engine.evaluate import Marks, Row
from contilab.engine.memory.entries import Entries
from contilab.engine.recording.kept import features_kept, trajectory_kept
from contilab.engine.recording.landscape import PREFIX, Landscape, keeps_parameters, landscape_from, landscape_tensors
from contilab.engine.recording.log import StreamLog, log_from
from contilab.engine.recording.representation import PREFIX as OF_FEATURES
from contilab.engine.recording.representation import Representation, representation_from, representation_tensors
from contilab.engine.setup import Setup
from contilab.records.outcome import Outcome
from contilab.records.record import Cost, Matrix, Record
from contilab.spec.run import Run

STEPS_PER_MEAN = 100  # with train.steps, one mean loss per so many steps

MARK_TENSORS = {"prediction": torch.int16, "confidence": torch.float32, "prediction_all_rows": torch.int16}
MARK_FACTS = tuple(name for name in Marks._fields if name not in MARK_TENSORS)


@dataclass
class Diary:
    """The marks of one member after each stage (the untrained model first), its losses, where it diverged, and records.

    Per stage: *steps* with a finite loss, samples *replayed* so far, entries that memory *held* at its end.
    """

    marks: list[Marks] = field(default_factory=list)
    validation: list[Row] = field(default_factory=list)
    train_loss: list[list[float]] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    replayed: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    diverged: dict[str, int] | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    stream: StreamLog = field(default_factory=StreamLog)
    landscape: Landscape = field(default_factory=Landscape)
    representation: Representation = field(default_factory=Representation)

    @property
    def measured_passes(self) -> int:
        """How many forward passes of one sample the measurements at ends of stages took, beside exams."""
        return self.landscape.passes + self.representation.passes

    def note_losses(self, setup: Setup, stage: Stage, losses: "np.ndarray[Any, Any]", entries: Entries) -> None:
        """Note the losses [S] of all steps of *stage*, and what memory holds; the first that is not finite ends the run."""
        bad = np.flatnonzero(~np.isfinite(losses))
        finite = losses[: bad[0]] if len(bad) else losses
        if len(bad):
            self.diverged = {"task": stage.task, "step": int(bad[0])}
        has_epochs = setup.shared.train.epochs is not None or setup.learner.strategy.training is not None
        window = max(1, stage.schedule.steps_per_epoch) if has_epochs else STEPS_PER_MEAN
        starts = range(0, len(finite), window)
        # In float64: the huge losses before the first one that is not finite have a mean, but no sum in float32.
        self.train_loss.append([float(finite[first : first + window].mean(dtype=np.float64)) for first in starts])
        self.steps.append(len(finite))
        self.replayed.append(int(entries.replayed))
        self.held.append(len(entries.held))

    def note_marks(self, stage: Stage | None, marks: Marks, validation: Row | None) -> None:
        """Note the marks after *stage* (None: before training); logits that are not finite end the run after its last step."""
        if stage is not None and not marks.is_finite:
            self.diverged = {"task": stage.task, "step": stage.schedule.steps}
            return
        self.marks.append(marks)
        if validation is not None:
            self.validation.append(validation)

    def memory_share(self, stages: Sequence[Stage]) -> list[float]:
        """Return which share of the samples of each of *stages* came from memory, as far as the run went.

        An epoch is one pass over all of them, so with whole epochs it is the share of each of its epochs.
        """
        before = [0, *self.replayed]
        done = list(zip(stages, self.steps, before, self.replayed, strict=False))
        return [(now - then) / max(1, stage.samples_until(count)) for stage, count, then, now in done]

    def facts(self) -> dict[str, Any]:
        """Return what a snapshot keeps of the diary as text; the rest are its tensors."""
        return {
            "marks": [{name: getattr(one, name) for name in MARK_FACTS} for one in self.marks],
            "validation": self.validation,
            "train_loss": self.train_loss,
            "steps": self.steps,
            "replayed": self.replayed,
            "held": self.held,
            "diverged": self.diverged,
            "stream": self.stream.facts(),
            **({"landscape": self.landscape.facts()} if self.landscape.cosine else {}),
            **({"representation": self.representation.facts()} if self.representation.probe else {}),
        }

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return what the member answered in each exam, [marks, N], its landscape and features."""
        answers = {name: torch.stack([getattr(one, name) for one in self.marks]) for name in MARK_TENSORS}
        return answers | self.landscape.tensors() | self.representation.tensors()


def kept_by_diary(name: str) -> bool:
    """Tell whether *name* is one of `Diary.tensors`."""
    return name in MARK_TENSORS or name.startswith((PREFIX, OF_FEATURES))


def diary_from(facts: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Diary:
    """Return the diary of which `Diary.facts` and `Diary.tensors` gave these."""
    rows = zip(*(tensors[name].unbind() for name in MARK_TENSORS), strict=True)
    marks = [Marks(**own, **dict(zip(MARK_TENSORS, row, strict=True))) for own, row in zip(facts["marks"], rows, strict=True)]
    own: dict[str, Any] = {"landscape": landscape_from(facts["landscape"], tensors)} if "landscape" in facts else {}
    if "representation" in facts:
        own["representation"] = representation_from(facts["representation"], tensors)
    return Diary(**{**facts, "marks": marks, "stream": log_from(facts["stream"]), **own})


def outcome(setup: Setup, run: Run, member: MemberState, diary: Diary, cost: Cost) -> Outcome:
    """Return what *run* leaves."""
    untrained, *learned = diary.marks
    record = Record(
        scenario=run.benchmark.scenario,
        tasks=len(setup.stream.tasks),
        head_rows=setup.stream.head_rows,
        task_rows=[list(rows) for rows in setup.rows],
        test_samples=[len(task.test) for task in setup.stream.tasks],
        stages=len(setup.stages),
        accuracy=[marks.accuracy for marks in learned],
        baseline=untrained.accuracy,
        accuracy_all_rows=[marks.all_rows for marks in learned],
        accuracy_task_aware=_task_aware(run, learned),
        validation=diary.validation or None,
        train_loss=diary.train_loss,
        diverged=diary.diverged,
        notes=diary.notes,
        cost=cost,
    )
    keeps = run.eval.keep_parameters and diary.diverged is None
    kept = {**member.params, **member.buffers} if keeps else {}
    parameters = {name: value.cpu().numpy().copy() for name, value in kept.items()}
    tensors = _tensors(setup, diary.marks)
    if run.eval.tier != "core":
        sizes = [min(run.eval.stream_samples, count) for count in record.test_samples]
        tensors |= diary.stream.tensors(sizes, diary.diverged)
    tensors |= landscape_tensors(setup, diary.landscape, member.params) | representation_tensors(setup, diary.representation)
    return Outcome(run.rid, record, tensors, parameters, _kept(setup, diary, member))


def _kept(setup: Setup, diary: Diary, member: MemberState) -> dict[str, "np.ndarray[Any, Any]"]:
    """Return features and parameters after the stages that the run reached, as far as it asks for them."""
    is_whole = diary.diverged is None and keeps_parameters(setup, member.params)
    params = [*diary.landscape.params, *([member.params] if is_whole else [])]
    return features_kept(setup, diary.representation.kept) | trajectory_kept(setup, member.params, params)


def _task_aware(run: Run, learned: list[Marks]) -> Matrix | None:
    return [marks.task_aware for marks in learned] if run.benchmark.scenario == "class" else None


def _tensors(setup: Setup, marks: list[Marks]) -> dict[str, "np.ndarray[Any, Any]"]:
    """Return predictions and confidences; rows that were lost to divergence are -1, as are samples not measured."""
    target = setup.stream.test_rows[torch.cat([task.test for task in setup.stream.tasks])].cpu()
    lost = len(setup.stages) + 1 - len(marks)
    nothing = torch.full((lost, len(target)), -1, dtype=torch.int16)
    return {
        "prediction": torch.cat([torch.stack([one.prediction for one in marks]), nothing]).numpy(),
        "confidence": torch.cat([torch.stack([one.confidence for one in marks]), torch.zeros(nothing.shape)]).numpy(),
        "prediction_all_rows": torch.cat([torch.stack([one.prediction_all_rows for one in marks]), nothing]).numpy(),
        "target": target.to(torch.int16).numpy(),
    }
