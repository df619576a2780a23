"""The state of one member, how it begins, and how the members of an ensemble are stacked.

Everything a member is made of is tensors in named tuples and dicts, so it stacks over members, goes through vmap, and can be
saved and loaded.
"""

from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from contilab.engine import streams
from contilab.models.contract import NO_TENSORS, Model, Params

Tree = TypeVar("Tree")


class MemberState(NamedTuple):
    """All that changes while one member is trained. Stacked, every tensor has the member axis first."""

    params: Params
    optimiser: Any
    strategy: Any
    stored: Tensor  # [M + 1, C] the logits of the entries of memory, slot M is the bin; [0] for methods that keep none
    buffers: Params = NO_TENSORS  # what norms over batches have collected, by name; of models without them none
    frozen: Params = NO_TENSORS  # the buffers of the last finished task, if the strategy has a teacher


def initial_params(model: Model, seed: int, *, device: torch.device, dtype: torch.dtype) -> Params:
    """Draw the initial weights of the member *seed*: one draw per parameter name, so no weight depends on other shapes."""
    return {name: _uniform(seed, name, item.shape, item.bound).to(device, dtype) for name, item in model.table.items()}


def initial_buffers(model: Model, *, device: torch.device, dtype: torch.dtype) -> Params:
    """Return the first buffers of a member."""
    return {name: torch.full(item.shape, item.value, device=device, dtype=dtype) for name, item in model.buffers.items()}


def stack(members: list[Tree]) -> Tree:
    """Stack the trees of *members* leaf by leaf: [...] becomes [E, ...]."""
    stacked: Tree = pytree.tree_map(lambda *leaves: torch.stack(leaves), *members)
    return stacked


def unstack(tree: Tree, count: int) -> list[Tree]:
    """Return the trees of the *count* members; their tensors are views of the stacked ones."""
    leaves, form = pytree.tree_flatten(tree)
    parts = [leaf.unbind() for leaf in leaves]  # once for all of them: in each step of a group this is on the way
    return [pytree.tree_unflatten([part[member] for part in parts], form) for member in range(count)]


def clone(tree: Tree) -> Tree:
    """Copy every tensor of *tree*: optimisers write into parameters, and what others keep of them must stand still."""
    copied: Tree = pytree.tree_map(torch.clone, tree)
    return copied


def tree_bytes(tree: object) -> int:
    """Return how many bytes the tensors of *tree* hold."""
    return sum(leaf.numel() * leaf.element_size() for leaf in pytree.tree_leaves(tree))


def _uniform(seed: int, name: str, shape: tuple[int, ...], bound: float) -> Tensor:
    if bound == 0:
        return torch.zeros(shape)
    count = torch.Size(shape).numel()
    drawn = streams.uniforms(seed, f"{streams.WEIGHTS}.{name}", task=0, index=0, count=count)
    return torch.from_numpy((2 * drawn - 1) * bound).reshape(shape)
