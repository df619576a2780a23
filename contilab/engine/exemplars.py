"""What memory needs the model for: choosing exemplars by herding, and predicting by the nearest mean of their features.

Source: Rebuffi et al. 2017, iCaRL: m = floor(M / number of seen rows) exemplars per class; mu_c is the normalised mean of the
normalised features of the exemplars of class c; prediction argmin_c norm(h(x) / norm(h(x)) - mu_c) over allowed rows.

Shapes: F features, C head rows, N samples.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from contilab.engine.draws import Stage
from contilab.engine.evaluate import BATCH
from contilab.engine.memory.entries import Entries, Integers
from contilab.engine.memory.herding import herd
from contilab.engine.memory.occupancy import counts, herding_quotas
from contilab.engine.pools import gathered
from contilab.engine.setup import Setup
from contilab.models.contract import Params

Look = Callable[[], None]


class Means(NamedTuple):
    """The means of the classes that memory has entries of."""

    means: Tensor  # [C, F], of norm 1
    is_known: Tensor  # [C] bool


def features_of(setup: Setup, params: Params, samples: Integers, look: Look) -> Tensor:
    """Return the features [N, F] of training *samples*; *look* is called before each batch."""
    found = []
    with torch.no_grad():
        for part in torch.split(torch.from_numpy(np.ascontiguousarray(samples)).to(setup.device), BATCH):
            look()
            found.append(setup.learner.model.forward(params, {}, gathered(setup.stream.train_inputs, part)).features)
    return torch.cat(found)


def chosen(setup: Setup, stage: Stage, params: Params, entries: Entries, look: Look) -> list[int]:
    """Return the samples that a herding memory holds after *stage*, list after list, the first choice first.

    There is a list for each task and row. Those of earlier tasks are cut from their tail; those of the tasks of the stage are
    chosen from all of its samples.
    """
    rows, tasks = setup.stream.train_rows.cpu().numpy(), setup.stream.train_tasks.cpu().numpy()
    offered = np.concatenate([before.new for before in setup.stages[: stage.task + 1]])
    quotas = herding_quotas(counts(rows, tasks, offered, setup.plan), setup.plan.capacity)
    held = entries.held
    samples: list[int] = []
    for source, is_new in ((held, False), (stage.new, True)):
        for task, row in sorted(set(zip(tasks[source].tolist(), rows[source].tolist(), strict=True))):
            own = source[(tasks[source] == task) & (rows[source] == row)]
            if is_new:
                own = own[herd(features_of(setup, params, own, look), quotas[task, row])]
            samples += own[: quotas[task, row]].tolist()
    return samples


def class_means(setup: Setup, params: Params, entries: Entries, look: Look) -> Means:
    """Return the mean features of each class from the entries of memory."""
    held, rows = entries.held, setup.stream.head_rows
    if not len(held):
        return Means(torch.zeros(rows, 1, device=setup.device, dtype=setup.dtype), torch.zeros(rows, dtype=torch.bool))
    features = normalize(features_of(setup, params, held, look), dim=1)
    label = setup.stream.train_rows[torch.from_numpy(held).to(setup.device)]
    empty = torch.zeros(rows, features.shape[1], device=setup.device, dtype=setup.dtype)
    # A GPU adds in any order in index_add, so that two attempts would differ in their last bits.
    total = empty.index_add(0, label, features) if empty.is_cpu else empty.index_put((label,), features, accumulate=True)
    return Means(normalize(total, dim=1), torch.bincount(label, minlength=rows) > 0)


def closeness(means: Means, features: Tensor) -> Tensor:
    """Return minus the distance [N, C] of *features* [N, F] to each mean; that to a class without one means nothing."""
    return -torch.cdist(normalize(features, dim=1), means.means.expand(-1, features.shape[1]))
