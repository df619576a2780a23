"""How the gradients of two tasks lie to each other (Yu 2020): cosines of the mean gradients at one member's parameters.

The mean is over up to 512 training samples of each task, chosen by hash: the same for all members, and after each stage. They
are shown as they are, under the mask with which their task is tested by then. A sample of a blurry stream whose row is not in
that mask is left out. Norms over batches go by the batch, as they do when they are trained.

Shapes: K tasks begun, T tasks, N samples, C head rows.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from contilab.data.selection import first, known_ranks
from contilab.engine.executions.loop import gradient
from contilab.engine.masks import evaluation_mask
from contilab.engine.pools import gathered
from contilab.engine.setup import Setup
from contilab.models.contract import Params
from contilab.strategies.contract import Batch, cross_entropy

SAMPLES = 512  # of each task; chosen
PART = 128  # samples of one forward and backward pass; chosen: convolutions keep all their activations
KEY = "contilab.gradients/1"

Look = Callable[[], None]


def task_gradients(setup: Setup, params: Params, *, last: int, look: Look) -> tuple[list[Params], int]:
    """Return the mean gradient of each task up to *last*, and of how many samples they are.

    *look* is called before each pass through the model; if it raises, there is nothing.
    """
    grads, count = [], 0
    for task in range(last + 1):
        mask = evaluation_mask(setup.shared.benchmark, setup.rows, setup.stream.head_rows, task=task, last=last)
        assert mask is not None  # noqa: S101 - tasks up to the last one learned are tested
        mask = mask.to(setup.device)
        samples = samples_of(setup, task)
        samples = samples[mask[setup.stream.train_rows[samples]]]
        grads.append(mean_gradient(setup, params, samples, mask, look))
        count += len(samples)
    return grads, count


def samples_of(setup: Setup, task: int) -> Tensor:
    """Return the samples [N] of *task* that its gradient is a mean over, as indices into the training pool."""
    part = setup.stream.tasks[task].train
    rank = known_ranks(f"{KEY} {setup.shared.data.digest}", len(setup.stream.train_rows))
    return torch.from_numpy(first(part.cpu().numpy(), rank, SAMPLES)).to(part.device)


def mean_gradient(setup: Setup, params: Params, samples: Tensor, mask: Tensor, look: Look) -> Params:
    """Return the gradient of the mean cross entropy of training *samples* [N] under *mask* [C]; 0 without samples."""
    inputs, rows = setup.stream.train_inputs, setup.stream.train_rows
    total = {name: torch.zeros_like(value) for name, value in params.items()}
    for part in torch.split(samples, PART) if len(samples) else ():
        look()

        def loss(own: Params, part: Tensor = part) -> tuple[Tensor, Tensor]:
            logits = setup.learner.model.forward(own, {}, gathered(inputs, part)).logits
            batch = Batch(logits, rows[part], mask.expand_as(logits), logits.new_ones(len(part)))
            value = cross_entropy(batch).sum() / len(samples)
            return value, value.detach()

        for name, grad in gradient(loss, params)[0].items():
            total[name] += grad
    return total


def cosines(grads: Sequence[Params], tasks: int) -> Tensor:
    """Return the cosines [T, T] float64 of the *grads* of the tasks begun; nan for others, and where a gradient is zero.

    Products are added layer by layer in float64, so that no gradient is written down twice.
    """
    gram = torch.zeros(len(grads), len(grads), dtype=torch.float64)
    for name in grads[0]:
        block = torch.stack([grad[name].flatten() for grad in grads]).double()
        gram += (block @ block.T).cpu()
    square = gram.diagonal()
    found = torch.full((tasks, tasks), torch.nan, dtype=torch.float64)
    found[: len(grads), : len(grads)] = gram / (square[:, None] * square).sqrt()  # 0 / 0 is nan; exactly 1 with itself
    return found
