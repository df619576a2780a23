"""Split TinyImageNet: colour photographs of 200 classes as a stream of tasks.

The labelled validation images are the test data: the labels of the official test images are not public. Normalised by mean and
standard deviation of the training images, per channel, as they are commonly used (Mammoth).
"""

from contilab.data.contract import Source
from contilab.data.normalisation import of_unit
from contilab.data.published import TINYIMAGENET
from contilab.data.source import raw_source
from contilab.spec.entry import Entry
from contilab.spec.sections import Benchmark, Data

NORMALISATION = of_unit((0.4802, 0.4480, 0.3975), (0.2770, 0.2691, 0.2821))


def split_tinyimagenet(spec: Benchmark, data: Data | None = None) -> Source:
    """Return the source of Split TinyImageNet for *spec*; *data*: those of a run that was planned."""
    return raw_source(spec, data, TINYIMAGENET, NORMALISATION)


ENTRY = Entry(
    make=split_tinyimagenet,
    numerics="split_tinyimagenet/1",
    summary=(
        "110,000 colour photographs of 64 x 64 pixels in 200 classes (100,000 train), split into tasks by class. "
        "contilab data import tinyimagenet PATH takes the zip or folder you have, contilab data prepare tinyimagenet downloads "
        "it (248 MB)."
    ),
    paper="Le, Yang (2015), Tiny ImageNet visual recognition challenge",
)
