"""The loss on a task on the straight line from the parameters after it to those at the end (Frankle 2020; Mirzadeh 2021).

It is the mean cross entropy of the logits, whatever a method adds to it while it trains, of the test samples that the
evaluation stream takes too. One line is one function, so its mask is the same everywhere: that with which the task is tested at
the end. Norms over batches have no running moments between two models, so they go by those of each batch of test samples.

Shapes: U places, N samples, C head rows.
"""

from collections.abc import Callable

import torch

from contilab.engine.evaluate import BATCH
from contilab.engine.masks import evaluation_mask
from contilab.engine.pools import gathered
from contilab.engine.recording.landscape import PLACES
from contilab.engine.recording.subset import spread
from contilab.engine.setup import Setup
from contilab.models.contract import Params
from contilab.strategies.contract import Batch, cross_entropy


def losses_between(setup: Setup, begin: Params, end: Params, *, task: int, look: Callable[[], None]) -> tuple[list[float], int]:
    """Return the losses [U] on *task* between *begin* and *end*, and how many forward passes of a sample they took.

    *look* is called before each pass through the model.
    """
    samples = spread(setup.stream.tasks[task].test, setup.shared.eval.stream_samples)
    last = len(setup.stream.tasks) - 1
    mask = evaluation_mask(setup.shared.benchmark, setup.rows, setup.stream.head_rows, task=task, last=last)
    assert mask is not None  # noqa: S101 - at the end every task is tested
    mask = mask.to(setup.device)

    def loss(params: Params) -> float:
        total = torch.zeros((), dtype=torch.float64, device=setup.device)
        for part in torch.split(samples, BATCH):
            look()
            logits = setup.learner.model.forward(params, {}, gathered(setup.stream.test_inputs, part)).logits
            batch = Batch(logits, setup.stream.test_rows[part], mask.expand_as(logits), logits.new_ones(len(part)))
            total += cross_entropy(batch).double().sum()
        return float(total) / max(1, len(samples))

    with torch.no_grad():
        found = [loss(between(begin, end, place / (PLACES - 1))) for place in range(PLACES)]
    return found, PLACES * len(samples)


def between(begin: Params, end: Params, share: float) -> Params:
    """Return the parameters at *share* of the way; at both ends, and where these are equal, they are exact."""
    return {name: torch.lerp(value, end[name], share) for name, value in begin.items()}
