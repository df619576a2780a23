"""The menu: every name a manifest may use, and where it is.

Each entry is text, "module:name", so reading the menu loads neither torch nor a method. A new plugin is one file and one
line here; a metric is one file and one line in `contilab.metrics.table`.
"""

from contilab.metrics.table import METRICS
from contilab.spec.entry import Entry, load

__all__ = ["BENCHMARKS", "KINDS", "METRICS", "MODELS", "OPTIMISERS", "STRATEGIES", "entry"]

BENCHMARKS = {
    "split_digits": "contilab.data.split_digits:ENTRY",
    "split_fmnist": "contilab.data.split_fmnist:ENTRY",
    "split_mnist": "contilab.data.split_mnist:ENTRY",
    "synthetic": "contilab.data.synthetic:ENTRY",
}
MODELS = {
    "convnet": "contilab.models.convnet:ENTRY",
    "mlp": "contilab.models.mlp:ENTRY",
    "resnet18": "contilab.models.resnet18:ENTRY",
    "resnet18r": "contilab.models.resnet18r:ENTRY",
}
OPTIMISERS = {
    "adam": "contilab.optim.adam:ENTRY",
    "sgd": "contilab.optim.sgd:ENTRY",
}
STRATEGIES = {
    "derpp": "contilab.strategies.derpp:ENTRY",
    "er": "contilab.strategies.er:ENTRY",
    "ewc": "contilab.strategies.ewc:ENTRY",
    "joint": "contilab.strategies.joint:ENTRY",
    "naive": "contilab.strategies.naive:ENTRY",
}

KINDS = {"benchmark": BENCHMARKS, "model": MODELS, "optim": OPTIMISERS, "method": STRATEGIES}


def entry(kind: str, name: str) -> Entry:
    """Return the entry *name* of *kind* (a key of `KINDS`); KeyError if the menu has no such name."""
    loaded = load(KINDS[kind][name])
    if not isinstance(loaded, Entry):
        raise TypeError(f"{KINDS[kind][name]} is no Entry")
    return loaded
