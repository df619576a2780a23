"""A snapshot of a group in training, as files: enough to drop everything and go on with the same numbers.

state.json          where training stands, what was noted of each member so far (its evaluation stream too), and the SHA-256
                    of each other file
<rid>.safetensors   one member: parameters, states of optimiser and strategy, memory, its answers in all exams so far, the
                    losses of the stage it is in, and with `eval.tier = "full"` its landscape (earlier parameters too)

Random streams and the order of the data are functions of (seed, task, step), so their positions are the step; what memory
holds and how many samples it was offered is kept. Nothing of a snapshot is taken on trust: state.json carries a digest of
itself and of each file, so parts of two snapshots do not mix, and keys, shapes and dtypes of every tensor must be those of the
members it is loaded into.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor
from torch.utils import _pytree as pytree

from contilab.engine.costs import Stopwatch
from contilab.engine.diary import MARK_TENSORS, Diary, diary_from, kept_by_diary
from contilab.engine.ensemble import MemberState
from contilab.engine.memory.entries import Entries
from contilab.engine.memory.memories import Memories
from contilab.engine.recording.landscape import expected_tensors
from contilab.engine.recording.representation import expected_representation, has_representation
from contilab.engine.setup import Setup, initial_members, initial_memory
from contilab.engine.watch import Snapshot
from contilab.errors import CheckpointMismatch

FORMAT = "contilab.snapshot/4"  # raised when an older reader would misread it
STATE = "state.json"
LOSSES = "stage_losses"

Losses = NDArray[Any]  # [S, E]


class Part(NamedTuple):
    """How much of a stage is trained: *step* steps, their losses (None for no step), and the seconds they took."""

    step: int = 0
    losses: Losses | None = None  # [step, E]
    seconds: float = 0.0


class Standing(NamedTuple):
    """Where a group stands: *part* of the stage *task* is trained; all stages before it are closed and examined."""

    task: int
    part: Part
    members: list[MemberState]
    memory: Memories
    diaries: list[Diary]
    clock: Stopwatch


def step_of(setup: Setup, standing: Standing) -> int:
    """Return how many steps of all stages are trained."""
    return sum(stage.schedule.steps for stage in setup.stages[: standing.task]) + standing.part.step


def pack(setup: Setup, standing: Standing, circumstances: Mapping[str, Any]) -> Snapshot:
    """Return the snapshot of a group; *circumstances* are named in it for who resumes, see `circumstances_of`."""
    task, part, members, memory, diaries, clock = standing
    files = {}
    parts = zip(setup.runs, members, memory.entries(), diaries, strict=True)
    for place, (run, member, entries, diary) in enumerate(parts):
        own = torch.empty(0, dtype=setup.dtype) if part.losses is None else torch.from_numpy(part.losses[:, place])
        tensors = {**_named(member), **_entry_tensors(entries), **diary.tensors(), LOSSES: own}
        # Copies, because a file takes no tensors that share memory.
        files[_file(run.rid)] = save(
            {name: value.detach().to("cpu", copy=True).contiguous() for name, value in tensors.items()}
        )
    state = {
        "format": FORMAT,
        "task": task,
        "step": part.step,
        "rids": [run.rid for run in setup.runs],
        "circumstances": dict(circumstances),
        "stage_seconds": part.seconds,
        "seconds": clock.elapsed,
        "seconds_recording": clock.recording,
        "steps_per_second": clock.steps_per_second,
        "diaries": {run.rid: diary.facts() for run, diary in zip(setup.runs, diaries, strict=True)},
        "sha256": {name: _sha256(data) for name, data in files.items()},
    }
    return Snapshot(step_of(setup, standing), {STATE: _sealed(json.dumps(state).encode()), **files})


def unpack(setup: Setup, files: Mapping[str, bytes]) -> Standing:
    """Return where the group of *setup* stood when *files* were packed; other members may have been packed with it.

    Raises CheckpointMismatch if the files are not one whole snapshot of these runs, or do not fit this model, method or data.
    """
    try:
        return _standing(setup, files)
    except (LookupError, TypeError, ValueError) as error:  # whole it is, but its writer may have noted other things
        problem = f"it was not written as this version reads it: {type(error).__name__}: {error}"
        raise _mismatch(STATE, problem) from error


def circumstances_of(files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return what a snapshot was trained with: execution, precision, compile, device, threads, members, torch.

    Raises CheckpointMismatch if its state cannot be read.
    """
    found: dict[str, Any] = _state(files)["circumstances"]
    return found


def _standing(setup: Setup, files: Mapping[str, bytes]) -> Standing:
    state = _state(files)
    _require(state, files, [run.rid for run in setup.runs])
    if state["task"] > len(setup.stages):
        raise _mismatch(STATE, f"it stands in stage {state['task']} of {len(setup.stages)}")
    members, entries, diaries, losses = [], [], [], []
    empty = initial_memory(setup)
    for run, template, nothing in zip(setup.runs, initial_members(setup), empty.entries(), strict=True):
        facts, name = state["diaries"][run.rid], _file(run.rid)
        tensors = _tensors(name, files[name])
        expected = _expected(setup, template, nothing, facts, steps=state["step"])
        _check(name, tensors, expected)
        members.append(_member(template, tensors))
        entries.append(Entries(*(tensors[name].numpy() for name in _entry_tensors(nothing))))
        diaries.append(diary_from(facts, {name: value.clone() for name, value in tensors.items() if kept_by_diary(name)}))
        losses.append(tensors[LOSSES])
    part = Part(state["step"], torch.stack(losses, 1).numpy() if state["step"] else None, state["stage_seconds"])
    clock = Stopwatch(state["seconds"], state["seconds_recording"], state["steps_per_second"])
    return Standing(state["task"], part, members, Memories(setup.plan, empty.pool, entries), diaries, clock)


def _state(files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the state of a snapshot, of which every byte is as it was written."""
    if STATE not in files:
        raise _mismatch(STATE, "it is missing")
    body = files[STATE][len(_sealed(b"")) - 1 : -1]
    if files[STATE] != _sealed(body):
        raise _mismatch(STATE, "its content is not what was written")
    state: dict[str, Any] = json.loads(body)
    if state.get("format") != FORMAT:
        raise _mismatch(STATE, f"its format is {state.get('format')!r}, this version reads {FORMAT!r}")
    return state


def _sealed(body: bytes) -> bytes:
    """Return the JSON object of a *body* of JSON and its digest, which is of its very bytes."""
    return b'{"sha256": "%b", "state": %b}' % (_sha256(body).encode(), body)


def _require(state: Mapping[str, Any], files: Mapping[str, bytes], rids: list[str]) -> None:
    """Raise unless *files* hold all *rids*, nothing that the state does not know, and the bytes it knows."""
    for rid in rids:
        if rid not in state["rids"]:
            raise _mismatch(STATE, f"it is of other runs, run {rid[:12]} is not among them")
        if _file(rid) not in files:
            raise _mismatch(_file(rid), "it is missing")
    for name in sorted(files.keys() - {STATE}):
        if name not in state["sha256"]:
            raise _mismatch(name, "it does not belong to the snapshot")
        if _sha256(files[name]) != state["sha256"][name]:
            raise _mismatch(name, f"its content is not what {STATE} was written with")


def _tensors(name: str, data: bytes) -> dict[str, Tensor]:
    try:
        return load(data)
    except SafetensorError as error:
        raise _mismatch(name, "it is no safetensors file") from error


def _expected(
    setup: Setup, template: MemberState, entries: Entries, facts: Mapping[str, Any], *, steps: int
) -> dict[str, Tensor]:
    """Return tensors, without memory, of the shapes and dtypes that the file of one member, noted as *facts*, must hold."""
    marks, count = len(facts["marks"]), sum(len(task.test) for task in setup.stream.tasks)
    landscape, features = facts.get("landscape"), facts.get("representation")
    if features is None and marks > 1 and has_representation(setup):
        raise _mismatch(STATE, "it was made by a version that measured no features")
    answers = {name: torch.empty(marks, count, dtype=dtype, device="meta") for name, dtype in MARK_TENSORS.items()}
    return {
        **_named(template),
        **_entry_tensors(entries),
        **answers,
        **(expected_tensors(landscape, template.params, len(setup.rows)) if landscape else {}),
        **(expected_representation(features, template.params) if features else {}),
        LOSSES: torch.empty(steps, dtype=setup.dtype, device="meta"),
    }


def _check(name: str, found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    if found.keys() != expected.keys():
        missing, unknown = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
        raise _mismatch(name, f"its tensors are not those of this model and method: missing {missing}, unknown {unknown}")
    for key, value in expected.items():
        if found[key].shape != value.shape:
            raise _mismatch(name, f"{key} has shape {list(found[key].shape)}, here it is {list(value.shape)}")
        if found[key].dtype != value.dtype:
            raise _mismatch(name, f"{key} has dtype {found[key].dtype}, here it is {value.dtype}")


def _named(member: MemberState) -> dict[str, Tensor]:
    """Return all tensors of *member* by their path, as in `.params['head.weight']`."""
    return {pytree.keystr(path): leaf for path, leaf in pytree.tree_flatten_with_path(member)[0]}


def _entry_tensors(entries: Entries) -> dict[str, Tensor]:
    return {f"memory.{name}": torch.from_numpy(values) for name, values in entries._asdict().items()}


def _member(template: MemberState, tensors: Mapping[str, Tensor]) -> MemberState:
    """Return the member of the form of *template* that *tensors* hold, as copies: those of a file may not be aligned."""
    leaves = [tensors[name].to(leaf.device, copy=True) for name, leaf in _named(template).items()]
    member: MemberState = pytree.tree_unflatten(leaves, pytree.tree_structure(template))
    return member


def _file(rid: str) -> str:
    return f"{rid}.safetensors"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _mismatch(name: str, problem: str) -> CheckpointMismatch:
    return CheckpointMismatch(f"checkpoint, {name}", problem, hint="go on from an older checkpoint, or begin anew")
