"""Groups to measure: members of a model, as the engine trains them, on 8-bit images of noise. The numbers do not matter."""

import math
from typing import Any

import torch

from contilab import catalog
from contilab.data.contract import Source, Stream, Task
from contilab.data.normalisation import PIXELS
from contilab.engine.environment import model_settings
from contilab.engine.setup import Setup, learner_of, prepare
from contilab.hardware.fingerprint import this_machine
from contilab.hardware.profile import Shape
from contilab.spec.run import Run
from contilab.spec.sections import Benchmark, Data, Eval, Memory, Numerics, Plugin, Train

VALUES = 8_000_000  # of the inputs that are trained on: more bytes than a core's own caches hold, as with real data
ROWS = 10
FLAT, IMAGE = (784,), (3, 32, 32)


def group(model: Plugin, *, members: int, batch: int, method: str = "naive", device: str = "cpu") -> Setup:
    """Return *members* runs of *model* that differ in their seed, ready to be trained by plain SGD."""
    shape = input_shape(model)
    stream = _stream(shape, batch)
    source = Source(Data(name="noise", digest=""), shape, ROWS, len(stream.train_rows), 0, lambda: stream)
    shared: dict[str, Any] = {
        "benchmark": Benchmark(name="noise", scenario="domain", tasks=1),
        "data": source.data,
        "model": model,
        "optim": Plugin(name="sgd", settings={"lr": 1e-3}),
        "train": Train(steps=10**9, batch=batch),
        "method": Plugin(name=method),
        "memory": Memory(total=500, batch=batch) if catalog.entry("method", method).uses_memory else None,
        "eval": Eval(),
        "engine": Numerics(),
    }
    runs = [Run(**shared, seed=seed) for seed in range(members)]
    return prepare(runs, learner_of(runs[0], source), stream, device=torch.device(device))


def shape_of(setup: Setup) -> Shape:
    """Return what the speed of *setup* depends on, as profiles name it."""
    run = setup.shared
    return Shape(
        machine=this_machine(),
        device=setup.device.type,
        model=run.model.name,
        settings=model_settings(run.model),
        features=math.prod(input_shape(run.model)),
        batch=run.train.batch,
        members=len(setup.runs),
    )


def input_shape(model: Plugin) -> tuple[int, ...]:
    """Return what *model* is given: images of 3 x 32 x 32 for convolutions, 784 numbers for the others."""
    entry = catalog.entry("model", model.name)
    is_convolutional = entry.make(entry.settings(**model.settings), IMAGE, ROWS).is_convolutional
    return IMAGE if is_convolutional else FLAT


def _stream(shape: tuple[int, ...], batch: int) -> Stream:
    generator = torch.Generator().manual_seed(0)
    count = max(1, VALUES // math.prod(shape) // batch) * batch  # batches of one size only
    inputs = torch.randint(0, 256, (count, *shape), generator=generator, dtype=torch.uint8)
    rows = torch.randint(0, ROWS, (count,), generator=generator)
    nothing = torch.empty(0, dtype=torch.int64)
    task = Task(tuple(range(ROWS)), torch.arange(count), nothing, nothing)
    return Stream(inputs, rows, torch.zeros_like(rows), inputs[:0], rows[:0], (task,), ROWS, PIXELS)
