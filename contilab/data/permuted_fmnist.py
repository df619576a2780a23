"""Permuted Fashion-MNIST: in each task the pixels of all images stand in another fixed order; pixels / 255, nothing else."""

from contilab.data.contract import Source
from contilab.data.permutation import permuted_source
from contilab.data.published import FASHION_MNIST
from contilab.spec.entry import Entry
from contilab.spec.sections import Benchmark, Data


def permuted_fmnist(spec: Benchmark, data: Data | None = None) -> Source:
    """Return the source of Permuted Fashion-MNIST for *spec*; *data*: those of a run that was planned."""
    return permuted_source(FASHION_MNIST, spec, data)


ENTRY = Entry(
    make=permuted_fmnist,
    numerics="permuted_fmnist/1",
    summary=(
        "All classes of Fashion-MNIST in every task, the pixels of each task in another fixed order. "
        "Domain-incremental; the first task shows the images as they are."
    ),
    paper="Goodfellow, Mirza, Xiao, Courville, Bengio (2013), An empirical investigation of catastrophic forgetting",
)
