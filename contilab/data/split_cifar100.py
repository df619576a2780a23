"""Split CIFAR-100: small colour photographs of 100 classes as a stream of tasks.

Normalised by mean and standard deviation of the training images, per channel, as they are commonly used (Mammoth, Avalanche).
"""

from contilab.data.contract import Source
from contilab.data.normalisation import of_unit
from contilab.data.published import CIFAR100
from contilab.data.source import raw_source
from contilab.spec.entry import Entry
from contilab.spec.sections import Benchmark, Data

NORMALISATION = of_unit((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))


def split_cifar100(spec: Benchmark, data: Data | None = None) -> Source:
    """Return the source of Split CIFAR-100 for *spec*; *data*: those of a run that was planned."""
    return raw_source(spec, data, CIFAR100, NORMALISATION)


ENTRY = Entry(
    make=split_cifar100,
    numerics="split_cifar100/1",
    summary=(
        "60,000 colour photographs of 32 x 32 pixels in 100 classes (50,000 train), split into tasks by class. "
        "contilab data import cifar100 DIR takes the files you have, contilab data prepare cifar100 downloads them (170 MB)."
    ),
    paper="Krizhevsky (2009), Learning multiple layers of features from tiny images",
)
