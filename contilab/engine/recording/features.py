"""Which samples the features of a member are measured on, and what they are.

Chosen once for all seeds, stages and methods, without a random number: training samples by hash, as validation samples are,
test samples evenly spaced, as those of the stream. All are of the task that they are said to be of, also where a blurry stream
gives some of a task's training samples to others; validation samples are in no part.

Shapes: N samples, F features.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from contilab.data.contract import Stream
from contilab.data.selection import first, known_ranks
from contilab.engine.evaluate import BATCH
from contilab.engine.pools import gathered
from contilab.engine.recording.subset import spread, subset
from contilab.models.contract import Forward

MOST = 1000  # samples of each part of a task, and of all tasks together for ranks and activity; chosen

Array = np.ndarray[Any, Any]


class Samples(NamedTuple):
    """Up to 1,000 training samples [N] of each task, *learned*, that probes are fitted to, and test samples, *tested*.

    *mixed*: up to 1,000 test samples, up to as many of each task as of any other; the same after each stage. *places*: where
    those of each task stand in exams, which have the test samples of all tasks one after the other.
    """

    learned: list[Tensor]
    tested: list[Tensor]
    mixed: Tensor
    places: list[Tensor]

    @property
    def passes(self) -> int:
        """How many samples that is, each counted as often as it is there."""
        return sum(len(part) for part in (*self.learned, *self.tested, self.mixed))


def share_of(tasks: int) -> int:
    """Return how many samples of each of *tasks* are among those of all together, at most."""
    return max(1, MOST // tasks)


def samples_of(stream: Stream, digest: str) -> Samples:
    """Return the samples of *stream* on which features are measured; *digest*: of its data."""
    learned, owner = torch.cat([task.train for task in stream.tasks]).cpu().numpy(), stream.train_tasks.cpu().numpy()
    rank, device = known_ranks(f"contilab.probe/1 {digest}", len(owner)), stream.train_tasks.device
    parts = [learned[owner[learned] == task] for task in range(len(stream.tasks))]
    tests = [task.test for task in stream.tasks]
    standing = torch.split(torch.arange(sum(map(len, tests)), device=tests[0].device), [len(part) for part in tests])
    places = [spread(part, share_of(len(tests))) for part in standing]
    return Samples(
        learned=[torch.from_numpy(first(part, rank, MOST)).to(device) for part in parts],
        tested=subset(stream, MOST),
        mixed=torch.cat(tests)[torch.cat(places)],
        places=places,
    )


def features_of(forward: Callable[[Tensor], Forward], inputs: Tensor, samples: Tensor, look: Callable[[], None]) -> Array:
    """Return the features [N, F] of *samples* of *inputs*, on the host; *look* is called before each pass of *forward*."""
    found = []
    with torch.no_grad():
        for part in torch.split(samples, BATCH):
            look()
            found.append(forward(gathered(inputs, part)).features)
    features: Array = torch.cat(found).cpu().numpy()
    return features
