"""Split MNIST: the ten handwritten digits as a stream of tasks, two digits each by default; pixels / 255, nothing else."""

from contilab.data.contract import Source
from contilab.data.published import MNIST
from contilab.data.source import image_source
from contilab.spec.entry import Entry
from contilab.spec.sections import Benchmark, Data


def split_mnist(spec: Benchmark, data: Data | None = None) -> Source:
    """Return the source of Split MNIST for *spec*; *data*: those of a run that was planned."""
    return image_source(MNIST, spec, data)


ENTRY = Entry(
    make=split_mnist,
    numerics="split_mnist/1",
    summary=(
        "70,000 handwritten digits of 28 x 28 pixels (60,000 train), split into tasks by class. "
        "Found in the folders of CONTILAB_DATA or downloaded (11 MB)."
    ),
    paper="LeCun, Bottou, Bengio, Haffner (1998), Gradient-based learning applied to document recognition",
)
