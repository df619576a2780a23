"""How much memory the members of a group take: a generous bound from shapes, and a measurement of a few steps.

Members share what one of them takes alone and gives back, in a step of the loop as in an exam; the rest grows with every
member. Two measurements on one thread, with one member and with two, tell both apart. With several threads parts of the members
are trained side by side (`executions/abreast`), and those of a block in one step (`executions/blocks`); each of them takes what
a step gives back:

    E members take the larger of  step + (E - 1) * member + (min(at_once, E) - 1) * beside  and  E * state + closing

Parts are not measured: it takes hundreds of steps until all of them are at their largest at once. MiB that the loop took of
reduced ResNet-18 at batch 32 within half a second, within 100 to 300 steps, and by these numbers: two members in two parts 204
to 234, 255, 272; four in four 342 to 421, 531 to 591, 551; eight in eight 679 to 800, 1,001, 993; four in one 113 to 130, 131,
161 (2026-12-01, two cores).
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from contilab.engine.choice.pace import Pace
from contilab.engine.ensemble import clone, tree_bytes
from contilab.engine.evaluate import BATCH
from contilab.engine.executions.abreast import LEAST_BYTES
from contilab.engine.executions.blocks import held
from contilab.engine.executions.contract import MakeExecution
from contilab.engine.importance import CHUNK_BYTES, CHUNK_SAMPLES
from contilab.engine.recording.features import MOST
from contilab.engine.recording.kept import kept_bytes
from contilab.engine.recording.landscape import has_landscape, landscape_bytes
from contilab.engine.recording.representation import MOST_BYTES as FEATURES_BYTES
from contilab.engine.recording.representation import has_representation
from contilab.engine.schedule import BLOCK
from contilab.engine.setup import Setup, draws_of, initial_members, initial_memory
from contilab.engine.stage import CHUNK_SECONDS
from contilab.hardware.peak import PeakMemory
from contilab.models.contract import Params

COPIES = 4  # of a member at once: at the stage's beginning, in training, taken out of it, and in a snapshot
ANSWER_BYTES = 8  # of a sample in an exam: two predictions and a confidence
BACKWARD = 6  # chosen: what a step takes for each byte that a forward pass keeps; gradients are as large, kernels reorder both
PIECES = 1.25  # chosen: a step beside others over one alone; tensors that come and go at once leave gaps between each other
GENEROUS = 3  # chosen: copies of the state that a step may make besides
EXAM = 256  # samples of the measured exam; memory grows with their number
LOOKED_AT = 2  # samples of the pass whose results are counted; more than one, as norms over a batch want it


class Demand(NamedTuple):
    """Bytes on the device: of one member in training, of each further one, of one that waits, of an exam or an importance.

    *is_measured*: else they are a bound from shapes. *beside*: more bytes of each member of the *at_once* that are in a step
    at the same time, but for the first.
    """

    step: int
    member: int
    state: int
    closing: int
    is_measured: bool
    beside: int = 0
    at_once: int = 1

    def shared(self, members: int) -> int:
        """Return what *members* in training take besides what each of them does."""
        return self.step - self.member + (min(self.at_once, members) - 1) * self.beside

    def of(self, members: int) -> int:
        """Return what *members* take together."""
        return max(self.shared(members) + members * self.member, members * self.state + self.closing)

    def fitting(self, free: int, members: int) -> int:
        """Return how many of *members* fit into *free* bytes; one at least, which nothing could make smaller."""
        alone = min(self.at_once, 1 + (free - self.step) // max(1, self.member + self.beside))  # each in a step of its own
        in_parts = (free - self.shared(self.at_once)) // max(1, self.member)
        waiting = (free - self.closing) // max(1, self.state)
        return max(1, min(members, max(alone, in_parts), waiting))


class _Sizes(NamedTuple):
    """Bytes of one member by shapes: its parameters, all that it holds, an exam or importances at most, and a sample passed."""

    params: int
    state: int
    closing: int
    sample: int


def bound(setup: Setup) -> Demand:
    """Return what the members of *setup* take at most, by the shapes of their states and of what one forward pass keeps."""
    sizes, plan = _sizes(setup), setup.plan
    has_references = setup.learner.strategy.reference is not None
    references = plan.tasks * sizes.params if has_references else 0
    samples = setup.shared.train.batch + len(plan.names) * plan.replayed + (plan.capacity if has_references else 0)
    own = (COPIES + GENEROUS) * sizes.state + references + BACKWARD * samples * sizes.sample
    closing = max(_exam_samples(setup) * sizes.sample, sizes.closing)
    return Demand(own, own, COPIES * sizes.state, closing, is_measured=False)


def measured(setup: Setup, make: MakeExecution, free: int) -> Demand:
    """Return what the members of *setup* take in the execution that *make* builds, by training one of them and two of them.

    *free*: bytes; two members are not tried where one takes half of them. Where the system does not tell it is the bound.
    """
    alone, pair = (setup._replace(runs=setup.runs[:count]) for count in (1, 2))
    Pace(alone, make).lap(1)  # the first step of a process loads libraries
    with _in_one_part():
        one = _peak(alone, lambda: _train(alone, make))
        two = _peak(pair, lambda: _train(pair, make)) if one is not None and 2 * one <= free else None
    exam = _peak(alone, lambda: _sit(alone))
    if one is None or exam is None:
        return bound(setup)
    sizes = _sizes(setup)
    state = COPIES * sizes.state
    closing = max(exam * _exam_samples(setup) // max(1, min(EXAM, _exam_samples(setup))), sizes.closing)
    step, member = max(one, state), max(one if two is None else two - one, state)
    beside = int(PIECES * max(0, step - member))  # nothing of vmap, whose members are all in one step
    return Demand(step, member, state, closing, is_measured=True, beside=beside, at_once=_at_once(setup, sizes.params))


@contextmanager
def _in_one_part() -> Iterator[None]:
    """Let all members be trained by one thread, one after the other where the execution does so."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _at_once(setup: Setup, params: int) -> int:
    """Return how many members at most are in a step at the same time, whatever number of them is trained.

    One for each thread that trains a part. Two members that fit into the block of a thread were measured in one step. Where
    they do not, a part with more threads has blocks of more.
    """
    if setup.device.type != "cpu" or params < LEAST_BYTES:
        return 1
    threads = torch.get_num_threads()
    return max(threads, held(threads, params)) if held(1, params) == 1 else threads


def _sizes(setup: Setup) -> _Sizes:
    [member] = initial_members(setup._replace(runs=setup.runs[:1]))
    params, (sample, width) = tree_bytes(member.params), _passed(setup, member.params)
    landscape = landscape_bytes(len(setup.stream.tasks), params) if has_landscape(setup) else 0
    on_host = _noted(setup, params, width) + landscape * (2 if setup.shared.eval.keep_trajectory else 1)  # and in the result
    state = tree_bytes(member) + (on_host if setup.device.type == "cpu" else 0)
    return _Sizes(params, state, max(landscape, _importance(setup, state, sample)), sample)  # task gradients are as large


def _noted(setup: Setup, params: int, width: int) -> int:
    """Return the bytes on the host of what exams and portraits note of a member with so many *params*, *width* features."""
    samples = len(setup.stream.test_inputs)
    answers = ANSWER_BYTES * samples * (len(setup.stages) + 1)
    features = min(FEATURES_BYTES, samples * width * setup.dtype.itemsize) if has_representation(setup) else 0
    kept = 2 * kept_bytes(len(setup.stages), 2 * MOST, width) if setup.shared.eval.keep_features else 0  # and in the result
    return answers + kept + (params + features if has_representation(setup) else 0)


def _peak(setup: Setup, act: Callable[[], object]) -> int | None:
    """Return the bytes that *act* takes at its largest; None where the system does not tell."""
    with PeakMemory(str(setup.device)) as memory:
        act()
    return memory.peak_bytes if memory.is_exact else None


def _train(setup: Setup, make: MakeExecution) -> object:
    """Train all members by a step and a chunk of the last stage, where teachers and penalties are at work, and pack them."""
    members, memory = initial_members(setup), initial_memory(setup)
    stage = max(setup.stages, key=lambda one: (one.schedule.steps > 0, one.task))
    execution, draws, lesson = make(setup.learner), draws_of(setup), setup.lesson(stage)
    ensemble, step, limit = execution.gather(members), 0, 1
    for _ in range(2):
        begin = time.perf_counter()
        chunk = stage.schedule.chunk(step, limit)
        ensemble, losses = execution.train(ensemble, lesson, draws.chunk(stage, chunk, memory))
        losses.sum().item()  # waits for the device
        step += chunk.count
        limit = max(1, min(BLOCK, int(CHUNK_SECONDS / (time.perf_counter() - begin))))
        if step >= stage.schedule.steps:
            break
    trained = execution.scatter(ensemble)
    return members, trained, clone(trained)  # all are held at once in a run that writes a snapshot


def _sit(setup: Setup) -> object:
    """Answer as many samples of an exam as are measured."""
    [member] = initial_members(setup)
    with torch.no_grad():
        return setup.learner.model.forward(member.params, {}, setup.stream.test_inputs[:EXAM].to(setup.device)).logits


def _importance(setup: Setup, state: int, a_sample: int) -> int:
    """Return the bytes that importances take at most, by shapes: measuring them would take longer than many steps."""
    request, model = setup.learner.strategy.importance, setup.learner.model
    if request is None:
        return 0
    samples = min(request.samples, setup.shared.train.batch if request.of_batches else CHUNK_SAMPLES)
    by_sample = 0 if model.chain or request.of_batches else CHUNK_BYTES
    return GENEROUS * state + by_sample + 2 * samples * a_sample


def _exam_samples(setup: Setup) -> int:
    """Return how many samples of an exam are answered at once."""
    return min(BATCH, len(setup.stream.test_inputs))


def _passed(setup: Setup, params: Params) -> tuple[int, int]:
    """Return the bytes of one input and of all that a forward pass of it keeps for the backward pass; and its features."""
    x = setup.stream.train_inputs[:LOOKED_AT].to(setup.device, copy=True)  # a view would be taken for all that it is a view of
    leaves = {name: value.detach().requires_grad_() for name, value in params.items()}
    kept = {value.untyped_storage().data_ptr(): 0 for value in leaves.values()}

    def note(value: Tensor) -> Tensor:
        storage = value.untyped_storage()
        kept.setdefault(storage.data_ptr(), storage.nbytes())
        return value

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(note, _as_it_is):
        out = setup.learner.model.forward(leaves, {}, x)
    return (sum(kept.values()) + x.numel() * setup.dtype.itemsize) // max(1, len(x)), out.features.shape[-1]


def _as_it_is(value: Tensor) -> Tensor:
    return value
