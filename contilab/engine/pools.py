"""Where the inputs of the pools lie, and how they come to the device that trains.

On the device, a batch is an index. Data too large for that stay on the host: the inputs of a batch are gathered there into
memory that the device reads on its own: a batch of an exam, or the samples of a few steps at once, so that an execution
finds a small pool on its device and steps are what they always are. The bits of a run are the same either way.

Shapes: S steps, E members, B samples.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from contilab.data.contract import Stream
from contilab.engine.draws import Draw
from contilab.engine.executions.contract import Ensemble, Execution, MakeExecution
from contilab.engine.step import Learner, Lesson
from contilab.hardware.device import Choice
from contilab.hardware.memory import MIB, Free, free_device_memory

FILLED = 0.5  # of what is left on a device may be data; chosen: members, their gradients and activations need the rest
CARRIED_BYTES = 256 * 2**20  # of inputs that are brought to the device at a time; chosen


def place_of(asked: str, needed: int, device: torch.device, *, free_on: Callable[[str], Free] = free_device_memory) -> Choice:
    """Return where *needed* bytes of inputs lie while *device* trains, "device" or "host", and why.

    >>> place_of("auto", 2 * MIB, torch.device("cuda:0"), free_on=lambda device: Free(3 * MIB, f"3 MiB left on {device}"))
    Choice(value='host', reason='the data take 2 MiB, 50% of 3 MiB left on cuda:0 may be data')
    """
    if asked != "auto":
        return Choice(asked, "asked for")
    if device.type == "cpu":
        return Choice("device", "the processor trains from the memory of the host")
    free = free_on(str(device))
    value = "device" if needed <= FILLED * free.bytes else "host"
    return Choice(value, f"the data take {needed / MIB:,.0f} MiB, {FILLED:.0%} of {free.reason} may be data")


def pool_bytes(stream: Stream, dtype: torch.dtype) -> int:
    """Return how many bytes the inputs of *stream* take on a device, as they are stored or in *dtype*."""
    size = dtype.itemsize if stream.normalisation is None else stream.train_inputs.dtype.itemsize
    return size * (stream.train_inputs.numel() + stream.test_inputs.numel())


def gathered(inputs: Tensor, samples: Tensor) -> Tensor:
    """Return the *inputs* of *samples* [B], where these lie."""
    if inputs.device == samples.device:
        return inputs[samples]
    index = samples.to(inputs.device)
    # Page-locked, so that the device copies it while the host goes on; torch keeps it until the copy is done.
    batch = torch.empty((len(index), *inputs.shape[1:]), dtype=inputs.dtype, pin_memory=samples.is_cuda)
    return torch.index_select(inputs, 0, index, out=batch).to(samples.device, non_blocking=True)


def carrying(make: MakeExecution) -> MakeExecution:
    """Return what builds the execution of *make* for lessons whose inputs lie on the host too."""

    def made(learner: Learner) -> Execution:
        execution = make(learner)

        def train(ensemble: Ensemble, lesson: Lesson, draws: Draw) -> tuple[Ensemble, Tensor]:
            if not lesson.is_on_host:
                return execution.train(ensemble, lesson, draws)
            losses = []
            for part in _parts(lesson, draws):
                ensemble, loss = execution.train(ensemble, *carried(lesson, part))
                losses.append(loss)
            return ensemble, torch.cat(losses)

        return execution._replace(train=train)

    return made


def carried(lesson: Lesson, draws: Draw) -> tuple[Lesson, Draw]:
    """Return *lesson* with a pool of the samples of *draws* alone, on their device, and *draws* of places in it."""
    batches = _batches(draws)
    samples, places = torch.unique(torch.cat([batch.flatten() for batch in batches]), return_inverse=True)
    split = places.split([batch.numel() for batch in batches])
    current, *others = (part.view(batch.shape) for part, batch in zip(split, batches, strict=True))
    replays = iter(others)
    own = lesson._replace(
        inputs=gathered(lesson.inputs, samples), rows=lesson.rows[samples], tasks=lesson.tasks[samples], is_on_host=False
    )
    return own, draws._replace(
        current=current,
        replay={name: replay._replace(samples=next(replays)) for name, replay in draws.replay.items()},
        references=tuple(reference._replace(samples=next(replays)) for reference in draws.references),
    )


def _batches(draws: Draw) -> list[Tensor]:
    """Return the indices of all samples of *draws*: current, replayed and reference ones."""
    return [draws.current, *(replay.samples for replay in (*draws.replay.values(), *draws.references))]


def _parts(lesson: Lesson, draws: Draw) -> Iterator[Draw]:
    """Yield the *draws* [S, E, ...] of as many steps as may be brought to the device at a time."""
    steps = len(draws.current)
    a_step = sum(batch[0].numel() for batch in _batches(draws)) * lesson.inputs[0].nbytes
    count = max(1, CARRIED_BYTES // max(1, a_step))
    for first in range(0, steps, count):
        yield pytree.tree_map(lambda leaf, first=first: leaf[first : first + count], draws)
