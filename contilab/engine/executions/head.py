"""The loss of all members and its gradient with respect to their logits: what a strategy says of a step.

The strategy's function is for one member; it is vmapped over logits, which are small, while the products before and after it
are done for all members at once. What that comes to is recorded once per shape.

Shapes: E members, B samples of all batches of a step, C head rows.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import grad_and_value
from torch.utils import _pytree as pytree

from contilab.engine.executions.recorded import Flat, recorded
from contilab.engine.step import Extra, batches_of

Loss = Callable[[Any, Tensor, Tensor, Tensor, Mapping[str, Extra]], Tensor]  # state, logits, row, mask, parts -> []


class Said(NamedTuple):
    """What the batches of a step are judged by, besides the logits; every tensor with the members in front."""

    state: Any
    row: Tensor  # [E, B]
    mask: Tensor  # [E, B, C]
    parts: dict[str, Extra]


class Head:
    """Maps logits [E, B, C] and what is said of them to gradients [E, B, C] and losses [E]."""

    def __init__(self, loss: Loss) -> None:
        self._loss = loss
        self._known: dict[Any, Flat] = {}

    def __call__(self, logits: Tensor, said: Said) -> tuple[Tensor, Tensor]:
        """Return gradients and losses."""
        leaves, tree = pytree.tree_flatten(said)
        inputs = [logits, *(leaf for leaf in leaves if leaf is not None)]
        key = (tree, *(None if leaf is None else (leaf.shape, leaf.dtype) for leaf in leaves))
        if key not in self._known:
            self._known[key] = recorded(self._vmapped(tree, [leaf is None for leaf in leaves]), inputs)
        gradient, loss = self._known[key](*inputs)
        return gradient, loss

    def _vmapped(self, tree: Any, absent: Sequence[bool]) -> Flat:
        def alone(logits: Tensor, *values: Tensor) -> tuple[Tensor, Tensor]:
            left = iter(values)
            said = pytree.tree_unflatten([None if is_absent else next(left) for is_absent in absent], tree)
            gradient, loss = grad_and_value(lambda z: self._loss(said.state, z, said.row, said.mask, said.parts))(logits)
            return gradient, loss.detach()

        vmapped: Flat = torch.func.vmap(alone)
        return vmapped


def loss_of(loss: Callable[[Any, Mapping[str, Any]], Tensor]) -> Loss:
    """Return the *loss* of a strategy as one of all samples of a step, which lie one batch after the other."""

    def of(state: Any, logits: Tensor, row: Tensor, mask: Tensor, parts: Mapping[str, Extra]) -> Tensor:
        return loss(state, batches_of(logits, row, mask, parts))

    return of
