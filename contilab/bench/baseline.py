"""The loop that one would write by hand: one seed at a time, eager, data as tensors, torch's own SGD. The honest baseline."""

import time

import torch
from torch.nn.functional import cross_entropy

from contilab import catalog
from contilab.data.contract import Stream
from contilab.engine.choice.pace import Lap
from contilab.engine.setup import Setup, initial_members
from contilab.models.contract import Model
from contilab.models.layout import channels_last, lay_out

LR = 1e-3


class OneAtATime:
    """Trains the first member of *setup* alone; convolutions with channels last, which is faster for them on processors.

    Inputs are normalised beforehand, as one would by hand: four times the memory of 8-bit ones, and nothing to do in a step.
    """

    def __init__(self, setup: Setup) -> None:
        [member, *_] = initial_members(setup._replace(runs=setup.runs[:1]))
        self._model = channels_last(_as_published(setup))
        self._params = {name: value.requires_grad_() for name, value in lay_out(member.params).items()}
        self.inputs, self._rows = _normalised(setup.stream), setup.stream.train_rows
        self._optimiser = torch.optim.SGD(self._params.values(), lr=LR)
        self._batch = setup.shared.train.batch
        self._order = torch.empty(0, dtype=torch.int64)

    def during(self, seconds: float) -> Lap:
        """Train for about *seconds*, by one step at least."""
        begin, busy = time.perf_counter(), time.thread_time()
        steps = 0
        while steps == 0 or time.perf_counter() - begin < seconds:
            loss = self._step()
            steps += 1
        loss.item()  # waits for the device
        return Lap(steps, steps * self._batch, time.perf_counter() - begin, time.thread_time() - busy)

    def _step(self) -> torch.Tensor:
        if len(self._order) < self._batch:
            self._order = torch.randperm(len(self._rows), device=self._rows.device)
        index, self._order = self._order[: self._batch], self._order[self._batch :]
        self._optimiser.zero_grad()
        loss = cross_entropy(self._model.forward(self._params, {}, self.inputs[index]).logits, self._rows[index])
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
        self._optimiser.step()
        return loss


def _as_published(setup: Setup) -> Model:
    """Return the model of *setup*, for inputs that are normalised already."""
    plugin, stream = setup.shared.model, setup.stream
    entry = catalog.entry("model", plugin.name)
    model: Model = entry.make(entry.settings(**plugin.settings), tuple(stream.train_inputs.shape[1:]), stream.head_rows)
    return model


def _normalised(stream: Stream) -> torch.Tensor:
    return stream.train_inputs if stream.normalisation is None else stream.normalisation.apply(stream.train_inputs)
