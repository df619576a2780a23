"""Split Fashion-MNIST: ten kinds of clothing as a stream of tasks, two kinds each by default; pixels / 255, nothing else."""

from contilab.data.contract import Source
from contilab.data.published import FASHION_MNIST
from contilab.data.source import image_source
from contilab.spec.entry import Entry
from contilab.spec.sections import Benchmark, Data


def split_fmnist(spec: Benchmark, data: Data | None = None) -> Source:
    """Return the source of Split Fashion-MNIST for *spec*; *data*: those of a run that was planned."""
    return image_source(FASHION_MNIST, spec, data)


ENTRY = Entry(
    make=split_fmnist,
    numerics="split_fmnist/1",
    summary=(
        "70,000 photographs of clothing of 28 x 28 pixels (60,000 train), split into tasks by class. "
        "Found in the folders of CONTILAB_DATA or where Debian's package dataset-fashion-mnist puts it, or downloaded (30 MB)."
    ),
    paper="Xiao, Rasul, Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms",
)
