"""Split CIFAR-10: small colour photographs of 10 classes as a stream of tasks.

Normalised by mean and standard deviation of the training images, per channel, as they are commonly used (Mammoth, Avalanche).
"""

from contilab.data.contract import Source
from contilab.data.normalisation import of_unit
from contilab.data.published import CIFAR10
from contilab.data.source import raw_source
from contilab.spec.entry import Entry
from contilab.spec.sections import Benchmark, Data

NORMALISATION = of_unit((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2615))


def split_cifar10(spec: Benchmark, data: Data | None = None) -> Source:
    """Return the source of Split CIFAR-10 for *spec*; *data*: those of a run that was planned."""
    return raw_source(spec, data, CIFAR10, NORMALISATION)


ENTRY = Entry(
    make=split_cifar10,
    numerics="split_cifar10/1",
    summary=(
        "60,000 colour photographs of 32 x 32 pixels in 10 classes (50,000 train), split into tasks by class. "
        "contilab data import cifar10 DIR takes the files you have, contilab data prepare cifar10 downloads them (170 MB)."
    ),
    paper="Krizhevsky (2009), Learning multiple layers of features from tiny images",
)
