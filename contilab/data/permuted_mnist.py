"""Permuted MNIST: in each task the pixels of all images stand in another fixed order; pixels / 255, nothing else."""

from contilab.data.contract import Source
from contilab.data.permutation import permuted_source
from contilab.data.published import MNIST
from contilab.spec.entry import Entry
from contilab.spec.sections import Benchmark, Data


def permuted_mnist(spec: Benchmark, data: Data | None = None) -> Source:
    """Return the source of Permuted MNIST for *spec*; *data*: those of a run that was planned."""
    return permuted_source(MNIST, spec, data)


ENTRY = Entry(
    make=permuted_mnist,
    numerics="permuted_mnist/1",
    summary=(
        "All classes of MNIST in every task, the pixels of each task in another fixed order. "
        "Domain-incremental; the first task shows the images as they are."
    ),
    paper="Goodfellow, Mirza, Xiao, Courville, Bengio (2013), An empirical investigation of catastrophic forgetting",
)
