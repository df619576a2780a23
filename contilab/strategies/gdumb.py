"""GDumb: the stream only fills a class-balanced memory, and at each task end a new model is trained on the memory alone.

Source: Prabhu et al. 2020, "GDumb: A simple approach that questions our progress in continual learning", and its authors' code
for what the paper leaves open (momentum, the first pass). L = mean over entries of ce(x, y; S(x)).

Pass e = 0 is a warm start at lr / 10. Then follow cosine cycles with warm restarts (Loshchilov & Hutter 2017) of 1, 2, 4, ...
passes: in pass e >= 1 of the cycle of 2^n passes that began with pass 2^n,

lr_e = lr_end + (lr - lr_end) (1 + cos(pi (e - 2^n) / 2^n)) / 2

Deviations from the authors' code: the result is that of the last pass, not the best test accuracy over passes; arithmetic is
that of the preset, not half precision; the model has no batch normalisation unless it is the preset's; no CutMix.
"""

import math
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Lt

from contilab.spec.entry import Entry
from contilab.spec.fields import Doc
from contilab.spec.sections import NotNegative, Positive
from contilab.strategies.contract import OwnTraining, State, Strategy
from contilab.strategies.naive import naive

WARM_START = 0.1  # share of lr in the first pass, as in the authors' code


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a manifest may set of GDumb; they replace the tables train and optim of the preset.

    They make the one optimiser and schedule of a group, so none is taken per member: runs that differ in one are trained apart.
    """

    passes: Annotated[int, Ge(1), Doc("passes over memory at each task end")] = 128
    batch: Annotated[int, Ge(1), Doc("samples per step")] = 16
    lr: Annotated[Positive, Doc("learning rate at the beginning of each cycle")] = 0.05
    lr_end: Annotated[NotNegative, Doc("learning rate that each cycle ends at")] = 0.0005
    momentum: Annotated[float, Ge(0), Lt(1), Doc("share of the velocity that each step keeps")] = 0.9
    weight_decay: Annotated[NotNegative, Doc("factor of the parameters that is added to the gradient")] = 1e-6
    clip_norm: Annotated[Positive, Doc("largest norm of the gradient; longer ones are scaled")] = 10.0

    def __post_init__(self) -> None:
        """Refuse a schedule that rises."""
        if self.lr_end > self.lr:
            raise ValueError(f"a cycle goes down, and lr_end = {self.lr_end} is above lr = {self.lr}")


def gdumb(settings: Settings) -> Strategy:
    """Return training of a new model on memory alone.

    A warm start, a cycle of one pass, one of two and the beginning of one of four:

    >>> training = gdumb(Settings()).training
    >>> [round(training.rate(epoch), 5) for epoch in range(5)]
    [0.005, 0.05, 0.05, 0.02525, 0.05]
    """
    optim = {
        "name": "sgd",
        "lr": settings.lr,
        "momentum": settings.momentum,
        "weight_decay": settings.weight_decay,
        "clip_norm": settings.clip_norm,
    }

    def rate(epoch: int) -> float:
        return _rate(settings, epoch)

    own = OwnTraining(settings.passes, settings.batch, optim, rate)
    return naive()._replace(stages="memory", is_fresh=True, training=own, notes=_notes)


def _rate(settings: Settings, epoch: int) -> float:
    if epoch == 0:
        return WARM_START * settings.lr
    length = 1 << (epoch.bit_length() - 1)  # of the cycle, and the pass it began with
    return settings.lr_end + (settings.lr - settings.lr_end) * (1 + math.cos(math.pi * (epoch - length) / length)) / 2


def _notes(_state: State) -> dict[str, float | str]:
    return {"stream_metrics": "absent: no training on the stream"}


ENTRY = Entry(
    make=gdumb,
    settings=Settings,
    numerics="gdumb/1",
    summary=(
        "Fills a class-balanced memory from the stream and trains a new model on it at each task end. "
        "Nothing is trained on the stream itself, so metrics of the stream are absent. It has its own schedule of passes, "
        "batch and learning rates with warm restarts; train and optim of the preset do not apply, nor does memory.batch."
    ),
    paper="Prabhu et al. 2020, GDumb: A simple approach that questions our progress in continual learning",
    uses_memory=True,
    memory={"policy": ("class_balanced",), "insert": ("first_epoch",)},
)
