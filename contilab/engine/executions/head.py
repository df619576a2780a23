"""The loss of all members and its gradient with respect to their logits: what a strategy says of a step.

The strategy's function is for one member; it is vmapped over logits, which are small, while the products before and after it
are done for all members at once. What that comes to is recorded once per shape.

Shapes: S steps of a chunk, E members, B samples of all batches of a step, R of one of them, C head rows.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import grad_and_value
from torch.utils import _pytree as pytree

from contilab.engine.draws import packed
from contilab.engine.executions.parted import Flat
from contilab.engine.executions.recorded import recorded
from contilab.engine.step import Extra, batches_of
from contilab.strategies.contract import Batch

Loss = Callable[[Any, Mapping[str, Batch]], Tensor]
Dress = Callable[[Flat], Flat]


class Targets(NamedTuple):
    """What the logits of all steps of a chunk are judged by and what does not depend on training."""

    row: Tensor  # [S, E, B]
    mask: Tensor  # [S, E, B, C]
    weights: dict[str, Tensor]  # [S, E, R] by batch


class Changing(NamedTuple):
    """What else they are judged by, and what may change from step to step."""

    state: Any  # of the strategy, [E, ...]
    stored: dict[str, Tensor]  # [E, R, C] by batch, of methods that keep logits
    teacher: Tensor | None  # [E, B of the current batch, C]


class Head:
    """The *loss* of a strategy for stacked members; *dress* is given what each step has to do, and returns what does it.

    *has_losses*: somebody asks for the losses too, so what they come from is kept until then.
    """

    def __init__(self, loss: Loss, dress: Dress, *, has_losses: bool = True) -> None:
        self._loss, self._dress, self.has_losses = loss, dress, has_losses
        self._recordings: dict[Any, Any] = {}

    def judges(self, targets: Targets) -> "Judges":
        """Return what judges the steps of a chunk, each by its own *targets*."""
        return Judges(self, targets)

    def recording(self, key: Any, function: Flat, changing: Sequence[Tensor], steady: Sequence[Tensor]) -> Any:
        """Return the recording of *function* for inputs like these."""
        whole = (key, *((value.shape, value.stride(), value.dtype, value.device) for value in (*changing, *steady)))
        if whole not in self._recordings:
            recording = recorded(function, changing, steady)
            self._recordings[whole] = recording._replace(each=self._dress(recording.each))
        return self._recordings[whole]

    def alone(self, logits: Tensor, changing: Changing, targets: Targets) -> tuple[Tensor, Tensor]:
        """Return gradient and loss of one member in one step; tensors without the axes S and E."""

        def value(logits: Tensor) -> Tensor:
            parts = {
                name: Extra(weight, changing.stored.get(name), changing.teacher if name == "current" else None)
                for name, weight in targets.weights.items()
            }
            return self._loss(changing.state, batches_of(logits, targets.row, targets.mask, parts))

        gradient, loss = grad_and_value(value)(logits)
        return gradient, loss.detach()


class Judges:
    """One judge for each step of a chunk."""

    def __init__(self, head: Head, targets: Targets) -> None:
        self._head = head
        steady, self._tree = pytree.tree_flatten(targets)
        self._steady: list[Tensor] = [packed(value) for value in steady]  # else each number of steps would have a recording
        self._before: tuple[Tensor, ...] = ()  # of all steps, [S, ...]
        self._values: list[tuple[Tensor, ...]] = []  # the same by step
        self._run: Flat | None = None
        self._late: Callable[..., Tensor] | None = None
        self._carried: list[list[Tensor]] = []  # by step, what its loss comes from
        self._changing: Changing | None = None
        self._leaves: list[Tensor] = []

    def __call__(self, step: int, logits: Tensor, changing: Changing) -> Tensor:
        """Return the gradients of *logits* [E, B, C] in *step*."""
        if changing is not self._changing:
            self._take(logits, changing)
        assert self._run is not None  # noqa: S101 - it was begun
        gradient, *carried = self._run(logits, *self._leaves, *self._values[step])
        if self._head.has_losses:
            self._carried.append(carried)
        return gradient

    def losses(self) -> Tensor:
        """Return the losses [S, E] of all steps judged since the last call, each in its turn."""
        assert self._late is not None  # noqa: S101 - it was begun
        carried = [torch.stack(parts) for parts in zip(*self._carried, strict=True)]
        self._carried = []
        found: Tensor = torch.func.vmap(self._late)(*carried, *self._before)
        return found

    def _take(self, logits: Tensor, changing: Changing) -> None:
        leaves, tree = pytree.tree_flatten(changing)
        self._changing, self._leaves = changing, [leaf for leaf in leaves if leaf is not None]
        if self._run is None:
            self._begin([logits, *self._leaves], tree, [leaf is None for leaf in leaves])

    def _begin(self, moving: Sequence[Tensor], tree: Any, absent: Sequence[bool]) -> None:
        def flat(logits: Tensor, *values: Tensor) -> tuple[Tensor, Tensor]:
            left = iter(values)
            changing = pytree.tree_unflatten([None if is_absent else next(left) for is_absent in absent], tree)
            return self._head.alone(logits, changing, pytree.tree_unflatten(list(left), self._tree))

        first = [value[0] for value in self._steady]
        recording = self._head.recording((tree, self._tree, *absent), torch.func.vmap(flat), moving, first)
        # One more axis in front, that of steps, and the same operations.
        self._before = torch.func.vmap(recording.steady)(*self._steady) if recording.border else ()
        # Contiguous once more, since vmap may put the axis of steps anywhere.
        parts = [[part.contiguous() for part in value.unbind()] for value in self._before]
        self._values = list(zip(*parts, strict=True)) or [()] * len(self._steady[0])
        self._run, self._late = recording.each, recording.late
