"""The arithmetic of training on one sample: forward pass, gradients of all weights, none of the inputs."""

import torch
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from contilab.engine.setup import Setup, initial_members


def flops_per_sample(setup: Setup) -> float:
    """Return how many floating-point operations one new sample costs, 2 per multiply-add, counted by torch in one step.

    Of an MLP 784-400-400-10: 2 (478,400 + 478,400 + 164,000), as the first layer's inputs need no gradient.
    """
    batch = setup.shared.train.batch
    [member, *_] = initial_members(setup._replace(runs=setup.runs[:1]))
    params = {name: value.requires_grad_() for name, value in member.params.items()}
    x, row = setup.stream.train_inputs[:batch], setup.stream.train_rows[:batch]
    with FlopCounterMode(display=False) as counter, torch.enable_grad():
        cross_entropy(setup.learner.model.forward(params, {}, x).logits, row).backward()  # type: ignore[no-untyped-call]  # torch's
    return float(counter.get_total_flops()) / batch
