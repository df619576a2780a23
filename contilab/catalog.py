"""The menu: every name a manifest may use, and where it is.

Each entry is text, "module:name", so reading the menu loads neither torch nor a method. A new plugin is one file and one
line here; a metric is one file and one line in `contilab.metrics.table`.
"""

from functools import cache
from pathlib import Path

from contilab.metrics.table import METRICS
from contilab.spec.entry import Entry, load

__all__ = ["BENCHMARKS", "KINDS", "METRICS", "MODELS", "OPTIMISERS", "STRATEGIES", "entry"]

BENCHMARKS = {
    "npz": "contilab.data.npz:ENTRY",
    "permuted_fmnist": "contilab.data.permuted_fmnist:ENTRY",
    "permuted_mnist": "contilab.data.permuted_mnist:ENTRY",
    "rotated_mnist": "contilab.data.rotated_mnist:ENTRY",
    "split_cifar10": "contilab.data.split_cifar10:ENTRY",
    "split_cifar100": "contilab.data.split_cifar100:ENTRY",
    "split_digits": "contilab.data.split_digits:ENTRY",
    "split_fmnist": "contilab.data.split_fmnist:ENTRY",
    "split_mnist": "contilab.data.split_mnist:ENTRY",
    "split_tinyimagenet": "contilab.data.split_tinyimagenet:ENTRY",
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
    "agem": "contilab.strategies.agem:ENTRY",
    "cumulative": "contilab.strategies.cumulative:ENTRY",
    "der": "contilab.strategies.der:ENTRY",
    "derpp": "contilab.strategies.derpp:ENTRY",
    "er": "contilab.strategies.er:ENTRY",
    "er_ace": "contilab.strategies.er_ace:ENTRY",
    "ewc": "contilab.strategies.ewc:ENTRY",
    "gdumb": "contilab.strategies.gdumb:ENTRY",
    "gem": "contilab.strategies.gem:ENTRY",
    "icarl": "contilab.strategies.icarl:ENTRY",
    "joint": "contilab.strategies.joint:ENTRY",
    "lwf": "contilab.strategies.lwf:ENTRY",
    "mas": "contilab.strategies.mas:ENTRY",
    "naive": "contilab.strategies.naive:ENTRY",
    "si": "contilab.strategies.si:ENTRY",
}

KINDS = {"benchmark": BENCHMARKS, "model": MODELS, "optim": OPTIMISERS, "method": STRATEGIES}


def entry(kind: str, name: str) -> Entry:
    """Return the entry *name* of *kind* (a key of `KINDS`); KeyError if the menu has no such name.

    A model may be a user's own, as `models.own` says: from the current folder or PYTHONPATH; InputError if it is not there.
    """
    if kind == "model" and ":" in name:
        return _own_model(name)
    loaded = load(KINDS[kind][name])
    if not isinstance(loaded, Entry):
        raise TypeError(f"{KINDS[kind][name]} is no Entry")
    return loaded


@cache  # a process keeps to what it read first: what is edited under a running study must not change it half way
def _own_model(name: str) -> Entry:
    from contilab.models.own import own_model  # this file loads no torch

    return own_model(name, (Path(),))
